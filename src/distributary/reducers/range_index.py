"""Ranges on one field, sorted, so that a value is compared with those that contain it and few others.

Numbers are sorted by their nearest float, which preserves their order but may make two of them equal: a value
that is strictly inside in floats is inside, one at an edge is tested exactly.
"""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from decimal import Decimal
from typing import Any

from distributary.model.filter import RowView
from distributary.model.filter.normal_form import Range
from distributary.model.query_plan import LookupPlan

_LARGEST = sys.float_info.max


def nearest(value: int | Decimal) -> float:
    """Return the nearest float; beyond all floats, the largest."""
    found = float(value)  # of an int of few digits or a Decimal, neither of which overflows
    if -_LARGEST <= found <= _LARGEST:
        return found
    return _LARGEST if found > 0 else -_LARGEST


class Edges:
    """Plans sorted by a key, and by number where keys are equal."""

    __slots__ = ("keys", "numbers", "plans")

    def __init__(self, texts: bool = False) -> None:
        self.keys: Any = [] if texts else array("d")
        self.numbers: list[int] = []
        self.plans: list[LookupPlan] = []

    def add(self, key: Any, plan: LookupPlan) -> int:
        """Insert a plan, and return its position."""
        first = bisect_left(self.keys, key)
        at = bisect_right(self.numbers, plan.number, first, bisect_right(self.keys, key, first))
        self.keys.insert(at, key)
        self.numbers.insert(at, plan.number)
        self.plans.insert(at, plan)
        return at

    def remove(self, key: Any, plan: LookupPlan) -> int:
        """Remove a plan, and return its position."""
        first = bisect_left(self.keys, key)
        at = bisect_left(self.numbers, plan.number, first, bisect_right(self.keys, key, first))
        while self.plans[at] is not plan:
            at += 1
        del self.keys[at], self.numbers[at], self.plans[at]
        return at


class _Spans(Edges):
    """Ranges with two ends whose lengths are below ``width``, by their lower end."""

    __slots__ = ("ends", "width")

    def __init__(self, width: float) -> None:
        super().__init__()
        self.ends = array("d")
        self.width = width


class Bounds:
    """The ranges of one type (numbers or strings) on one field.

    One-sided ranges are separated by whether anything is left to test after them: those without cost no more
    than the copy of their numbers.
    """

    __slots__ = ("_lower", "_lower_tested", "_spans", "_upper", "_upper_tested")

    def __init__(self, texts: bool) -> None:
        self._lower = Edges(texts)
        self._lower_tested = Edges(texts)
        self._upper = Edges(texts)
        self._upper_tested = Edges(texts)
        self._spans: dict[int, _Spans] = {}

    def __len__(self) -> int:
        sides = (self._lower, self._lower_tested, self._upper, self._upper_tested, *self._spans.values())
        return sum(len(side.keys) for side in sides)

    def add(self, step: Range, plan: LookupPlan) -> None:
        """Add a plan by the range that is its last step."""
        if step.kind != "text" and step.low is not None and step.high is not None:
            start, end = _key(step.low[0]), _key(step.high[0])
            exponent, width = _length(start, end)
            spans = self._spans.get(exponent)
            if spans is None:
                spans = self._spans[exponent] = _Spans(width)
            spans.ends.insert(spans.add(start, plan), end)
        else:
            edges, key = self._side(step, plan)
            edges.add(key, plan)

    def remove(self, step: Range, plan: LookupPlan) -> None:
        """Remove a plan that was added."""
        if step.kind != "text" and step.low is not None and step.high is not None:
            start, end = _key(step.low[0]), _key(step.high[0])
            exponent, _ = _length(start, end)
            spans = self._spans[exponent]
            del spans.ends[spans.remove(start, plan)]
            if not spans.keys:
                del self._spans[exponent]
        else:
            edges, key = self._side(step, plan)
            edges.remove(key, plan)

    def _side(self, step: Range, plan: LookupPlan) -> tuple[Edges, Any]:
        """Return the edges for a one-sided range, or one of strings, which is found by its lower end."""
        tested = not plan.exact or (step.low is not None and step.high is not None)
        if step.low is not None:
            return (self._lower_tested if tested else self._lower), _key(step.low[0])
        assert step.high is not None
        return (self._upper_tested if tested else self._upper), _key(step.high[0])

    def find(self, value: Any, row: RowView, found: set[int]) -> None:
        """Add the numbers of the queries whose range contains a value (for a number: its nearest float)."""
        if keys := self._lower.keys:
            first = bisect_left(keys, value)
            if first:
                found.update(self._lower.numbers[:first])
            if first < len(keys) and keys[first] == value:
                _test(self._lower.plans[first : bisect_right(keys, value, first)], row, found)
        if keys := self._upper.keys:
            last = bisect_right(keys, value)
            if last < len(keys):
                found.update(self._upper.numbers[last:])
            if last and keys[last - 1] == value:
                _test(self._upper.plans[bisect_left(keys, value, 0, last) : last], row, found)
        if keys := self._lower_tested.keys:
            _test(self._lower_tested.plans[: bisect_right(keys, value)], row, found)
        if keys := self._upper_tested.keys:
            _test(self._upper_tested.plans[bisect_left(keys, value) :], row, found)
        for spans in self._spans.values():
            keys, ends = spans.keys, spans.ends
            # A range around the value begins less than a width before it.
            first = bisect_left(keys, value - spans.width)
            for at in range(first, bisect_right(keys, value, first)):
                if ends[at] >= value:
                    plan = spans.plans[at]
                    if (plan.exact and keys[at] < value < ends[at]) or plan.test(row):
                        found.add(plan.number)


def _test(plans: list[LookupPlan], row: RowView, found: set[int]) -> None:
    for plan in plans:
        if plan.test(row):
            found.add(plan.number)


def _key(value: Any) -> Any:
    return value if isinstance(value, str) else nearest(value)


def _length(start: float, end: float) -> tuple[int, float]:
    """The class of a length, and a power of two that is over it; rounding cannot make it too small."""
    length = end - start
    if not math.isfinite(length):
        return sys.float_info.max_exp + 1, math.inf
    exponent = math.frexp(length)[1]
    return exponent, math.ldexp(1.0, exponent) if exponent <= sys.float_info.max_exp - 1 else math.inf
