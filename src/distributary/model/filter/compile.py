"""Compiles a normal form to a function of a row, once, since it is called for every row."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from distributary.model.filter.like import matcher
from distributary.model.filter.normal_form import (
    AllOf,
    AnyOf,
    Filter,
    LikePattern,
    NoneOf,
    Null,
    OneOf,
    Range,
)
from distributary.model.filter.row_view import RowView, slot_of
from distributary.model.filter.scalars import FALSE, TRUE, Scalar

Test = Callable[[RowView], bool]


def compiled(term: Filter) -> Test:
    """Return a function that tests whether a row matches a filter."""
    match term:
        case AllOf(terms):
            return _every([compiled(one) for one in terms])
        case AnyOf(terms):
            return _some([compiled(one) for one in terms])
        case Null(path, negated):
            slot = slot_of(path)
            return (lambda row: row[slot] is not None) if negated else (lambda row: row[slot] is None)
        case LikePattern(path, pattern, negated):
            return _alike(path, pattern, negated)
        case OneOf(_, "now", _) | NoneOf(_, "now", _):
            return _among_moving(term)
        case Range(_, "now", _, _):
            return _range_moving(term)
        case OneOf():
            return _among(term)
        case NoneOf():
            return _apart(term)
        case Range():
            return _range(term)


def plain(kind: str, value: Any) -> Any:
    """Convert a value of a normal form to the one in a row."""
    return value if kind != "truth" else TRUE if value else FALSE


def _every(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda row: first(row) and second(row)

    def test(row: RowView) -> bool:
        for one in tests:  # noqa: SIM110 (a generator costs more than the tests)
            if not one(row):
                return False
        return True

    return test


def _some(tests: list[Test]) -> Test:
    def test(row: RowView) -> bool:
        for one in tests:  # noqa: SIM110
            if one(row):
                return True
        return False

    return test


def _alike(path: tuple[str, ...], pattern: str, negated: bool) -> Test:
    slot, like = slot_of(path), matcher(pattern)

    def test(row: RowView) -> bool:
        value = row[slot]
        return isinstance(value, str) and like(value) != negated

    return test


def _among(term: OneOf) -> Test:
    slot = slot_of(term.path, term.kind)
    values = [plain(term.kind, value) for value in term.values]
    if len(values) == 1:
        wanted = values[0]
        return lambda row: row[slot] == wanted
    allowed = frozenset(values)
    return lambda row: row[slot] in allowed


def _apart(term: NoneOf) -> Test:
    slot, excluded, types = slot_of(term.path, term.kind), frozenset(term.values), _TYPES[term.kind]

    def test(row: RowView) -> bool:
        value = row[slot]
        return type(value) in types and value not in excluded

    return test


def _range(term: Range) -> Test:
    slot, inside, types = slot_of(term.path, term.kind), _inside(term), _TYPES[term.kind]

    def test(row: RowView) -> bool:
        value = row[slot]
        return type(value) in types and inside(value)

    return test


_TYPES: dict[str, tuple[type[Scalar], ...]] = {
    "text": (str,),
    "number": (int, Decimal),
    "moment": (int, Decimal),
}


def _inside(term: Range) -> Callable[[Any], bool]:
    low: Any
    high: Any
    low, low_in = term.low or (None, False)
    high, high_in = term.high or (None, False)
    if term.high is None:
        return (lambda value: bool(value >= low)) if low_in else (lambda value: bool(value > low))
    if term.low is None:
        return (lambda value: bool(value <= high)) if high_in else (lambda value: bool(value < high))
    if low_in and high_in:
        return lambda value: bool(low <= value <= high)

    def inside(value: Any) -> bool:
        return (value > low or (low_in and value == low)) and (value < high or (high_in and value == high))

    return inside


# Offsets are added to the time of evaluation, an integer: to subtract it from a field might round.


def _among_moving(term: OneOf | NoneOf) -> Test:
    slot, wanted = slot_of(term.path, term.kind), isinstance(term, OneOf)
    offsets: Any = term.values

    def test(row: RowView) -> bool:
        value, now = row[slot], row.now_ms
        return value is not None and any(value == now + offset for offset in offsets) == wanted

    return test


def _range_moving(term: Range) -> Test:
    slot = slot_of(term.path, term.kind)
    low, high = term.low, term.high

    def test(row: RowView) -> bool:
        value: Any = row[slot]
        if value is None:
            return False
        if low is not None:
            edge: Any = low[0] + row.now_ms  # type: ignore[operator]
            if value < edge or (value == edge and not low[1]):
                return False
        if high is not None:
            edge = high[0] + row.now_ms  # type: ignore[operator]
            if value > edge or (value == edge and not high[1]):
                return False
        return True

    return test
