"""``order by … limit n``: which rows of a query come first, and how many of them are sent. Pure.

The order is total. Values of a field are sorted as numbers (by value, exactly), then strings (by code point),
then false and true, then objects and arrays, which are all equal; ``desc`` reverses this. Null and missing
fields come last either way. Rows that are equal by all fields are ordered by their key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from distributary.errors import BadQuery
from distributary.model.filter.lexer import TokenReader
from distributary.model.filter.row_view import RowView, slot_of
from distributary.model.filter.scalars import FALSE, TRUE, Scalar
from distributary.model.filter.syntax_tree import Path

MAX_FIELDS = 8
MAX_TEXT = 1_000
MAX_LIMIT = 1_000_000
"""The limit of any publisher; ``publisher.max_limit`` is far lower."""

HINT = "write fields such as: price desc, score.home"

Rank = tuple[Any, ...]
"""The sort key of a row: of two rows the one with the smaller rank comes first."""

_NULL = (9, 0)

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class By:
    """One field to order by."""

    path: Path
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """The fields to order by, the most significant first, and the number of rows."""

    by: tuple[By, ...]
    limit: int

    def rank(self, key: str, row: bytes) -> Rank:
        """Return the rank of a row, given as JSON; one that is not an object has no fields."""
        try:
            fields: Mapping[str, msgspec.Raw] = _fields.decode(row)
        except msgspec.MsgspecError:
            fields = {}
        found = RowView(fields)
        return (*[_rank(found[slot_of(by.path)], by.descending) for by in self.by], key)

    def dump(self) -> dict[str, Any]:
        """Return the normal form; ``load_order`` is the inverse."""
        return {"order": [[list(by.path), by.descending] for by in self.by], "limit": self.limit}


class _Down:
    """A string with the reverse order."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __lt__(self, other: _Down) -> bool:
        return other._text < self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and other._text == self._text

    __hash__ = None  # type: ignore[assignment]


def _rank(value: Scalar, descending: bool) -> tuple[int, Any]:
    if value is None:
        return _NULL
    if isinstance(value, str):
        return (-1, _Down(value)) if descending else (1, value)
    if isinstance(value, int):
        return (0, -value) if descending else (0, value)
    if isinstance(value, Decimal):
        return (0, value.copy_negate()) if descending else (0, value)  # unary minus would round
    if value is TRUE or value is FALSE:
        return (-2, value is FALSE) if descending else (2, value is TRUE)
    return (-3, 0) if descending else (3, 0)


def parse_order(text: str, limit: str | int) -> Order:
    """Parse ``field [asc|desc] {, field [asc|desc]}`` and a number of rows.

    Of a repeated field the first occurrence is used. Raises BadQuery, which names the character.
    """
    if len(text) > MAX_TEXT:
        raise BadQuery(f"an order of {len(text):,} characters is too long", hint=f"the limit is {MAX_TEXT:,}")
    reader = TokenReader(text, now=False, what="order")
    found: dict[Path, By] = {}
    while True:
        if not reader.is_field():
            raise reader.expected("the name of a field", HINT)
        if len(found) == MAX_FIELDS:
            raise reader.bad("too many fields", f"order by at most {MAX_FIELDS}")
        path = reader.path()
        descending = reader.skip("desc")
        if not descending:
            reader.skip("asc")
        found.setdefault(path, By(path, descending))
        if reader.peek.kind == "end":
            return Order(tuple(found.values()), _limit(limit))
        if not reader.skip(","):
            raise reader.expected("asc, desc, a comma or the end", HINT)


def order_of(order: str | None, limit: str | int | None) -> Order | None:
    """Parse both, which must be given together or not at all. Raises BadQuery."""
    if order is None and limit is None:
        return None
    if order is None:
        raise BadQuery("limit requires order", hint="add order, as in: order=price desc")
    if limit is None:
        raise BadQuery("order requires limit", hint="add limit, as in: limit=10")
    return parse_order(order, limit)


def load_order(body: Mapping[str, Any]) -> Order | None:
    """Parse a normal form; None if it has no order."""
    if "order" not in body:
        return None
    return Order(tuple(By(tuple(path), descending) for path, descending in body["order"]), body["limit"])


def _limit(limit: str | int) -> int:
    if isinstance(limit, str) and limit.isascii() and limit.isdigit() and len(limit) < 10:
        limit = int(limit)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise BadQuery(f"limit={str(limit)[:40]!r} is not a number of rows", hint="it must be 1 or more")
    return limit
