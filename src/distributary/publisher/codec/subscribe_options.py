"""A subscribe as its client sent it, checked: where it starts from, and how fast it is sent changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from distributary.config.units import parse_duration, parse_size
from distributary.errors import BadQuery
from distributary.model.position import Position, Start, read_start
from distributary.publisher.codec.client_commands import Subscribe

CONFLATION_OPTIONS = ("conflate", "max_rate", "max_bytes", "slow")
MIN_INTERVAL, MAX_INTERVAL = 0.01, 3600.0
TICK = 0.1
"""A rate is spent in portions of this many seconds, where no interval is requested."""

REJECT_UNRECOVERED = 2
"""A flag of ``subscribe``: the client wants an error where others get a new snapshot."""

_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Conflation:
    """How fast a subscriber wants to be sent the newest rows; zero is no limit.

    Without any limit, rows are conflated only while the subscriber is slow.
    """

    interval: float = 0.0
    max_rate: float = 0.0
    max_bytes: int = 0

    @property
    def only_when_slow(self) -> bool:
        """Whether every change is sent as long as the subscriber keeps up."""
        return not (self.interval or self.max_rate or self.max_bytes)

    def portion(self) -> tuple[int, int]:
        """Return how many publications and bytes may be sent at one time; one publication always may."""
        tick = max(self.interval, TICK)
        count = max(1, int(self.max_rate * tick)) if self.max_rate else _UNLIMITED
        return count, int(self.max_bytes * tick) if self.max_bytes else _UNLIMITED

    def wait(self, count: int, size: int) -> float:
        """Return how many seconds must pass after this many publications and bytes were sent."""
        waits = [self.interval]
        if self.max_rate:
            waits.append(count / self.max_rate)
        if self.max_bytes:
            waits.append(size / self.max_bytes)
        return max(waits)


@dataclass(frozen=True, slots=True)
class SubscribeCommand:
    """A subscribe, of whichever protocol.

    ``channel`` and its own ``token`` are '' for an HTTP stream, whose URL has the query. ``subscription`` is
    the id that the control API gave, '' when the channel says everything. ``position`` is where the client
    was when its connection was lost; ``since``, a position or a time, is where a client starts that has rows
    already, and counts only without a ``position``. ``require_recovery``: reply with error 112 rather than
    with a new snapshot.
    """

    channel: str = ""
    token: str = ""
    subscription: str = ""
    position: Position | None = None
    require_recovery: bool = False
    since: Start | None = None
    conflation: Conflation | None = None


class SubscribeData(msgspec.Struct, gc=False):
    """The ``data`` of a subscribe."""

    subscription: str = ""
    since: str | int = msgspec.field(default="", name="from")
    conflate: str | int | float | None = None
    max_rate: str | int | float | None = None
    max_bytes: str | int | None = None
    slow: str | None = None


_data = msgspec.json.Decoder(SubscribeData)


def read_subscribe(command: Subscribe) -> SubscribeCommand:
    """Check a decoded subscribe. Raises BadQuery for ``data`` that is invalid."""
    data = _read_data(command.data)
    conflation = read_conflation(msgspec.structs.asdict(data))
    return SubscribeCommand(
        channel=command.channel,
        token=command.token,
        subscription=data.subscription,
        position=Position(command.epoch, command.offset) if command.recover else None,
        require_recovery=bool(command.flag & REJECT_UNRECOVERED),
        since=read_start(data.since) if data.since != "" else None,
        conflation=conflation,
    )


def _read_data(raw: msgspec.Raw) -> SubscribeData:
    data = bytes(raw)
    if not data or data == b"null":
        return SubscribeData()
    try:
        return _data.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        expected = '{"subscription": ID}, {"from": POSITION OR TIME}, options, or nothing'
        raise BadQuery(f"data must be {expected}") from None


def read_conflation(options: Mapping[str, Any]) -> Conflation | None:
    """Read the options of a subscription; None when it has none of them. Raises BadQuery.

    Values are JSON's, or strings as in a URL.
    """
    slow = options.get("slow")
    if slow not in (None, "conflate", "close"):
        raise BadQuery(f"unknown slow={str(slow)[:40]!r}", hint="slow is conflate or close")
    conflation = Conflation(
        interval=_seconds(options.get("conflate")),
        max_rate=_rate(options.get("max_rate")),
        max_bytes=_bytes(options.get("max_bytes")),
    )
    if conflation.only_when_slow:
        return conflation if slow == "conflate" else None
    if slow == "close":
        raise BadQuery(
            "slow=close cannot be combined with conflation or a rate limit",
            hint="such a subscriber is never too slow",
        )
    return conflation


def _seconds(value: Any) -> float:
    if value is None:
        return 0.0
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("expected a duration")
        seconds = parse_duration(value)
    except ValueError as error:
        raise BadQuery(f"conflate={str(value)[:40]!r}: {error}", hint='give seconds, or "500 ms"') from None
    if not MIN_INTERVAL <= seconds <= MAX_INTERVAL:
        raise BadQuery(f"conflate={str(value)[:40]!r} is out of range", hint="give 10 ms to 1 hour")
    return seconds


def _rate(value: Any) -> float:
    if value is None:
        return 0.0
    try:
        if isinstance(value, bool):
            raise ValueError
        rate = float(value)
    except (ValueError, TypeError, OverflowError):
        rate = 0.0
    if not 1 / MAX_INTERVAL <= rate <= 1e9:
        raise BadQuery(
            f"max_rate={str(value)[:40]!r} is not a rate", hint="give publications per second, such as 10"
        )
    return rate


def _bytes(value: Any) -> int:
    if value is None:
        return 0
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise ValueError("expected a size")
        size = parse_size(value)
    except ValueError as error:
        raise BadQuery(
            f"max_bytes={str(value)[:40]!r}: {error}", hint='give bytes per second, or "64k"'
        ) from None
    if not size:
        raise BadQuery("max_bytes is 0", hint="give bytes per second, or leave it out")
    return size
