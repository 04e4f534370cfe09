"""A pace of one's own: the newest of each row instead of every change (R20). Pure.

A row that changed several times is sent once, whole, since changes of fields do not compose: first it may
have lost a field, then got it back. It keeps its place in the queue from its first change that was not sent,
so no row waits for ever; and a publication's position is the one before the first change of the next row in
the queue. Everything up to there is delivered, so a resume from it is right; what the subscriber holds may
be newer, and is then told once more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from distributary.config.units import parse_duration, parse_size
from distributary.errors import BadQuery
from distributary.publisher.codec.publication import Step, removed, whole
from distributary.publisher.codec.websocket_frames import Pub

OPTIONS = ("conflate", "max_rate", "max_bytes", "slow")
SHORTEST, LONGEST = 0.01, 3600.0
TICK = 0.1
"""What a rate allows is sent in portions of this many seconds, where no interval is asked for."""

_ANY = 1 << 62


@dataclass(frozen=True, slots=True)
class Pace:
    """What a subscriber asked for; zero is no limit. Without any, rows are conflated only when it is slow."""

    interval: float = 0.0
    max_rate: float = 0.0
    max_bytes: int = 0

    @property
    def only_when_slow(self) -> bool:
        """Say whether every change is wanted as long as the subscriber keeps up."""
        return not (self.interval or self.max_rate or self.max_bytes)

    def portion(self) -> tuple[int, int]:
        """Say how many publications and bytes may be sent at one time; one publication always may."""
        tick = max(self.interval, TICK)
        most = max(1, int(self.max_rate * tick)) if self.max_rate else _ANY
        return most, int(self.max_bytes * tick) if self.max_bytes else _ANY

    def wait(self, sent: int, size: int) -> float:
        """Say how many seconds must pass after so much was sent."""
        waits = [self.interval]
        if self.max_rate:
            waits.append(sent / self.max_rate)
        if self.max_bytes:
            waits.append(size / self.max_bytes)
        return max(waits)


def read_pace(options: Mapping[str, Any]) -> Pace | None:
    """Read the options of a subscription; None when none of them is there. Raises BadQuery.

    Values are JSON's, or texts as in an address.
    """
    slow = options.get("slow")
    if slow not in (None, "conflate", "close"):
        raise BadQuery(f"slow={str(slow)[:40]!r} is not known", hint="slow is conflate or close")
    pace = Pace(
        _seconds(options.get("conflate")), _rate(options.get("max_rate")), _bytes(options.get("max_bytes"))
    )
    if pace.only_when_slow:
        return pace if slow == "conflate" else None
    if slow == "close":
        raise BadQuery("slow=close does not go with a pace", hint="whoever has a pace is never too slow")
    return pace


def _seconds(value: Any) -> float:
    if value is None:
        return 0.0
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("expected a duration")
        seconds = parse_duration(value)
    except ValueError as error:
        raise BadQuery(f"conflate={str(value)[:40]!r}: {error}", hint='give seconds, or "500 ms"') from None
    if not SHORTEST <= seconds <= LONGEST:
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
    if not 1 / LONGEST <= rate <= 1e9:
        raise BadQuery(
            f"max_rate={str(value)[:40]!r} is not a rate", hint="give publications a second, such as 10"
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
            f"max_bytes={str(value)[:40]!r}: {error}", hint='give bytes a second, or "64k"'
        ) from None
    if not size:
        raise BadQuery("max_bytes is 0", hint="give bytes a second, or leave it out")
    return size


class Queue(Protocol):
    """What one subscriber has not been told yet, and how many changes it is never told one by one."""

    conflated: int
    dropped: int

    @property
    def waiting(self) -> int:
        """How many rows wait."""

    def touch(self, step: Step) -> None:
        """Take note of a change, which the rows have already."""

    def take(self, seq: int, most: int, room: int) -> list[Pub]:
        """Give what is sent now: at most so many, within ``room`` bytes if it is more than one.

        ``seq`` is the number at which the rows are true.
        """


class _Waiting:
    __slots__ = ("first", "held", "time")

    def __init__(self, first: int, held: bool, time: int) -> None:
        self.first = first
        self.held = held
        self.time = time


class RowQueue:
    """Implements ``Queue`` over rows that belong to somebody else.

    ``conflated`` counts changes that a later one of the same row overtook, ``dropped`` those of rows that
    came and went unseen: with what was sent and what waits they are all that were touched. What is at or
    before ``after`` the subscriber has already, though it may come past here later.
    """

    def __init__(self, rows: Mapping[str, bytes], after: int = 0) -> None:
        self.conflated = 0
        self.dropped = 0
        self._rows = rows
        self._after = after
        self._doubt = 0
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    def touch(self, step: Step) -> None:
        """Take note of a change. The first one of a row says whether the subscriber has it."""
        found = self._waiting.get(step.key)
        if step.seq <= self._after:
            return
        if found is None:
            held = step.op != "add" or step.seq <= self._doubt
            self._waiting[step.key] = _Waiting(step.seq, held, step.time)
        else:
            found.time = step.time
            self.conflated += 1

    def precede(self, steps: Iterable[Step], top: int) -> None:
        """Take note of changes that came before all that were touched: what a resume missed.

        The subscriber may hold rows that are newer than its position, though not than ``top``. So a row that
        comes before that may be one that it has: if it goes again, that is told.
        """
        self._doubt = top
        later, self._waiting = self._waiting, OrderedDict()
        for step in steps:
            self.touch(step)
        for key, waiting in later.items():
            waiting.held = waiting.held or waiting.first <= top
            found = self._waiting.setdefault(key, waiting)
            if found is not waiting:
                found.time = waiting.time
                self.conflated += 1

    def take(self, seq: int, most: int, room: int) -> list[Pub]:
        """Give the rows that waited longest, as they are now; one that came and went is passed over."""
        sent: list[bytes] = []
        positions: list[int] = []
        queue = self._waiting
        while queue:
            key, waiting = next(iter(queue.items()))
            row = self._rows.get(key)
            if row is None and not waiting.held:
                del queue[key]
                self.dropped += 1
                continue
            data = removed(key, waiting.time) if row is None else whole(key, waiting.time, row)
            if sent and (len(sent) >= most or len(data) > room):
                break
            del queue[key]
            sent.append(data)
            room -= len(data)
            positions.append(next(iter(queue.values())).first - 1 if queue else seq)
        if sent and not queue:
            positions[-1] = seq
        return list(zip(positions, sent, strict=True))
