"""The reference: what a filter means, word for word, with three truths. Slow and plain on purpose."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from distributary.model.filter.syntax_tree import (
    And,
    Between,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Now,
    Or,
    Path,
    Term,
    Timestamp,
)
from distributary.model.filter.times import parse_time

Truth = bool | None
"""None is unknown."""

_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(term: Term, row: Mapping[str, msgspec.Raw], now_ms: int = 0) -> Truth:
    """Say whether a filter is true of a row, false, or neither."""
    match term:
        case Not(inner):
            found = truth(inner, row, now_ms)
            return None if found is None else not found
        case And(terms):
            return _all([truth(one, row, now_ms) for one in terms])
        case Or(terms):
            return _any([truth(one, row, now_ms) for one in terms])
        case IsNull(path):
            return _field(row, path) is None
        case Compare(path, op, value):
            return _compare(_field(row, path), op, value, now_ms)
        case In(path, values):
            return _any([_compare(_field(row, path), "=", value, now_ms) for value in values])
        case Between(path, low, high):
            field = _field(row, path)
            return _all([_compare(field, ">=", low, now_ms), _compare(field, "<=", high, now_ms)])
        case Like(path, pattern, escape):
            field = _field(row, path)
            return _like(field, pattern, escape) if isinstance(field, str) else None


def _all(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def _any(truths: list[Truth]) -> Truth:
    return True if True in truths else None if None in truths else False


def _compare(field: Any, op: str, value: Literal, now_ms: int) -> Truth:
    if isinstance(value, (Timestamp, Now)):
        field = parse_time(field) if isinstance(field, str) else field
        value = value.ms if isinstance(value, Timestamp) else now_ms + value.offset
    if isinstance(value, bool):
        comparable = isinstance(field, bool)
    elif isinstance(value, str):
        comparable = isinstance(field, str)
    else:
        comparable = isinstance(field, (int, Decimal)) and not isinstance(field, bool)
    return bool(_OPERATORS[op](field, value)) if comparable else None


def _field(row: Mapping[str, msgspec.Raw], path: Path) -> Any:
    """A field's value with numbers as Decimal; None when it is null or missing."""
    if path[0] not in row:
        return None
    found = json.loads(bytes(row[path[0]]), parse_float=_number, parse_int=_number)
    for name in path[1:]:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def _number(text: str) -> Decimal | list[object]:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all use: as good as a list, which compares with nothing
        return []


def _like(field: str, pattern: str, escape: str | None) -> bool:
    """Follow all ways through the pattern at once: ``ends`` is how much of the field it may have used up."""
    ends = {0}
    escaped = False
    for char in pattern:
        if escape is not None and char == escape and not escaped:
            escaped = True
        elif char == "%" and not escaped:
            ends = set(range(min(ends), len(field) + 1)) if ends else ends
        else:
            any_char = char == "_" and not escaped
            ends = {end + 1 for end in ends if end < len(field) and (any_char or field[end] == char)}
            escaped = False
    return len(field) in ends
