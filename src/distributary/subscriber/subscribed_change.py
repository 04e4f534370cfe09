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
    """One change of the rows that a subscriber follows.

    ``op`` says which of the rest is set:

    * ``snapshot``: ``rows``, all of them; it comes first, and again whenever changes were lost for good.
      ``stale`` and ``incomplete`` say how far to trust it.
    * ``resumed``: comes first when starting from a position; what is newer follows.
    * ``add``: ``key`` and ``row``.
    * ``change``: ``key``, ``row`` (all of it, as it is now), ``changed`` (the new values) and ``gone``
      (fields that were removed).
    * ``remove``: ``key``.
    * With ``order_by`` an ``add`` or ``change`` has ``at``: the row's rank, counted from 0.
    * ``stale``: the source has sent nothing since ``time``; ``fresh``: it does again.

    With the first two, ``tier`` says where the rows came from: a ``snapshot``, or what was missed, from the
    ``log`` or by a ``replay`` of records. ``time`` is the record's timestamp in ms. ``position`` is the
    subscriber's position after this. Integers are int and other numbers Decimal, so that no digit is lost.
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


class SubscribedRows:
    """The rows after the last change that was taken."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.stale = False
        self.incomplete = False
        self.position: Position | None = None

    def apply(self, change: SubscribedChange) -> None:
        """Apply a change to the rows."""
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
                insert_row(self.rows, change.key, change.row, change.at)


def insert_row(rows: dict[str, Row], key: str, row: Row, at: int | None) -> None:
    """Set a row; with ``at`` it is inserted at that rank, counted from 0."""
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


def replaced_row(
    old: Row | None,
    key: str,
    row: Row,
    *,
    time: int | None,
    position: Position,
    at: int | None = None,
) -> SubscribedChange:
    """Return the change that a complete row means: a row that is known has changed, perhaps several times."""
    if old is None:
        return SubscribedChange("add", key, row, time=time, position=position, at=at)
    changed = {name: value for name, value in row.items() if name not in old or old[name] != value}
    gone = tuple(name for name in old if name not in row)
    return SubscribedChange(
        "change", key, row, changed=changed, gone=gone, time=time, position=position, at=at
    )


def decode_json(text: str | bytes) -> Any:
    """Decode JSON with exact numbers."""
    try:
        return json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python refuses to create an int of very many digits; Decimal accepts any number.
        return json.loads(text, parse_float=Decimal, parse_int=_integer)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < _INT_DIGITS else Decimal(text)


def encode_json(value: Any) -> str:
    """Encode JSON, with numbers as they were decoded."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(str(k))}:{encode_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(encode_json, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
