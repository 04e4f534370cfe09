"""What a Python subscriber gets: plain values with exact numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from distributary.model.position import Position

Op = Literal["snapshot", "resumed", "add", "change", "remove", "stale", "fresh"]
Row = Mapping[str, Any]

_INT_DIGITS = 4300


@dataclass(frozen=True, slots=True)
class SubscribedChange:
    """One thing that happened to the rows a subscriber follows.

    ``op`` says which of the rest is set:

    * ``snapshot``: ``rows``, the whole state; it comes first, and again whenever changes were missed
      (the position was lost). ``stale`` and ``incomplete`` tell how far to trust it.
    * ``resumed``: comes first where one began from a position, and what is newer follows.
    * ``add``: ``key`` and ``row``.
    * ``change``: ``key``, ``row`` (all of it, as it is now), ``changed`` (the new values) and ``gone``
      (fields that went away).
    * ``remove``: ``key``.
    * With ``order_by`` an ``add`` or ``change`` has ``at``: where the row stands now, counted from 0.
    * ``stale``: the source has given nothing since ``time``; ``fresh``: it does again.

    ``tier`` says with the first two how the state was come by: ``snapshot``, or what was missed out of the
    ``log`` or by a ``replay``. ``time`` is the record's timestamp in ms. ``position`` is where the subscriber
    stands after this. Integers are int and other numbers Decimal, so that no digit is lost.
    """

    op: Op
    key: str | None = None
    row: Row | None = None
    changed: Row = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    time: int | None = None
    position: Position | None = None
    rows: Mapping[str, Row] = field(default_factory=dict)
    stale: bool = False
    incomplete: bool = False
    tier: str = ""
    at: int | None = None


class Followed:
    """What a subscriber knows after the last change it took."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.stale = False
        self.incomplete = False
        self.position: Position | None = None

    def note(self, change: SubscribedChange) -> None:
        """Bring the rows to where they are after this change."""
        self.position = change.position
        if change.op == "snapshot":
            self.rows = dict(change.rows)
            self.stale, self.incomplete = change.stale, change.incomplete
        elif change.op in ("stale", "fresh"):
            self.stale = change.op == "stale"
        elif change.op == "resumed":
            self.rows = dict(change.rows)
        elif change.key is not None:
            if change.op == "remove":
                self.rows.pop(change.key, None)
            elif change.row is not None:
                place(self.rows, change.key, change.row, change.at)


def place(rows: dict[str, Row], key: str, row: Row, at: int | None) -> None:
    """Put a row in; with ``at`` it comes to stand there, counted from 0, and the others make room."""
    if at is not None:
        rows.pop(key, None)
        if at < len(rows):
            behind = list(rows.items())[at:]
            for other, _ in behind:
                del rows[other]
            rows[key] = row
            rows.update(behind)
            return
    rows[key] = row


def decode(text: str | bytes) -> Any:
    """Read JSON with every number exact."""
    try:
        return json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python refuses to make an int of very many digits; Decimal takes any number.
        return json.loads(text, parse_float=Decimal, parse_int=_integer)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < _INT_DIGITS else Decimal(text)


def encode(value: Any) -> str:
    """Write JSON with every number as it was read."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(str(k))}:{encode(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
