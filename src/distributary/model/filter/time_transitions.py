"""The times at which the result of a filter with ``now()`` may change for an unchanged row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal

import msgspec

from distributary.model.filter.normal_form import AllOf, AnyOf, Filter, NoneOf, OneOf, Range
from distributary.model.filter.row_view import RowView, slot_of
from distributary.model.filter.syntax_tree import Path

_HORIZON = 10**18
"""Milliseconds that no clock reaches: a field beyond them never causes a transition."""


def timed(term: Filter) -> bool:
    """Return whether the result of a filter depends on the time of evaluation."""
    return next(_moving(term), None) is not None


def anchors(term: Filter) -> Iterator[tuple[Path, int]]:
    """Yield each field that is compared with ``now()``, with the offset; each pair once."""
    found = dict.fromkeys((leaf.path, offset) for leaf in _moving(term) for offset in _offsets(leaf))
    return iter(found)


def next_transition(term: Filter, fields: Mapping[str, msgspec.Raw], after_ms: int) -> int | None:
    """Return the first time after ``after_ms`` at which the result for this row may change; None: never.

    It is never too late: between ``after_ms`` and that time the result is the same. It may be early, if
    another condition decides.
    """
    row = RowView(fields)
    first: int | None = None
    for leaf in _moving(term):
        value = row[slot_of(leaf.path, leaf.kind)]
        if not isinstance(value, (int, Decimal)) or not -_HORIZON < value < _HORIZON:
            continue
        for offset in _offsets(leaf):
            # A comparison with now + offset changes when now reaches value - offset, and once it is past.
            for at in (math.ceil(value) - offset, math.floor(value) + 1 - offset):
                if at > after_ms and (first is None or at < first):
                    first = at
    return first


def _moving(term: Filter) -> Iterator[OneOf | NoneOf | Range]:
    if isinstance(term, (AllOf, AnyOf)):
        for one in term.terms:
            yield from _moving(one)
    elif isinstance(term, (OneOf, NoneOf, Range)) and term.kind == "now":
        yield term


def _offsets(leaf: OneOf | NoneOf | Range) -> Iterator[int]:
    if isinstance(leaf, Range):
        yield from (int(bound[0]) for bound in (leaf.low, leaf.high) if bound is not None)
    else:
        yield from (int(value) for value in leaf.values)
