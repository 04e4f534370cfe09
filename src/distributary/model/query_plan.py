"""How the index finds a query: by which of its conditions, in which order, and what remains to check."""

from __future__ import annotations

from collections.abc import Iterator

from distributary.model.filter import NEVER, Filter, RowView, Test, compiled
from distributary.model.filter.compile import plain
from distributary.model.filter.normal_form import AllOf, AnyOf, Leaf, Null, OneOf, Range
from distributary.model.filter.row_view import Slot, slot_of
from distributary.model.filter.scalars import Scalar
from distributary.model.query import Query

MAX_BRANCHES = 64
"""Maximum number of parts of an ``or`` that are looked up one by one; a longer one is checked as a whole."""

MAX_EQUALITIES = 3

Step = OneOf | Null | Range


class LookupPlan:
    """One way to find a query: ``steps`` lead to it, equalities before at most one range.

    ``exact``: a row that passes all steps matches the query, and nothing remains to ``test``.
    """

    __slots__ = ("_filter", "_test", "exact", "number", "steps")

    def __init__(self, number: int, steps: tuple[Step, ...], exact: bool, rest: Filter | None) -> None:
        self.number = number
        self.steps = steps
        self.exact = exact
        self._filter = rest
        self._test: Test | None = None

    def test(self, row: RowView) -> bool:
        """Check a row against the whole filter (but not the keys, which are always a step)."""
        if self._test is None:
            if self._filter is None:
                return True
            self._test = compiled(self._filter)
        return self._test(row)

    def names(self) -> set[str]:
        """Return the top-level fields that are used."""
        return set(_names(self._filter)) if self._filter is not None else set()


def plans(number: int, query: Query) -> list[LookupPlan]:
    """Return the plans for a query; none if no row can match it."""
    whole = query.filter
    if query.keys is not None:
        return [LookupPlan(number, (OneOf((), "text", query.keys),), whole is None, whole)]
    if whole is None:
        return [LookupPlan(number, (), True, None)]
    if whole == NEVER:
        return []
    if isinstance(whole, AnyOf):
        return _branches(number, whole, None) or [LookupPlan(number, (), False, whole)]
    steps, exact = _steps(whole)
    if not steps and isinstance(whole, AllOf):
        for term in whole.terms:
            if isinstance(term, AnyOf) and (found := _branches(number, term, whole)):
                return found
    return [LookupPlan(number, steps, exact, whole)]


def is_expensive(query: Query) -> bool:
    """Return whether no index supports the query: every change of the view is checked against it."""
    return any(not plan.steps and not plan.exact for plan in plans(0, query))


def place_of(step: Step) -> Slot:
    """Return the slot of the value that a step compares."""
    return slot_of(step.path) if isinstance(step, Null) else slot_of(step.path, step.kind)


def values_of(step: OneOf | Null) -> Iterator[Scalar]:
    """Yield the values at which a step finds its query, as they are in a row."""
    if isinstance(step, Null):
        yield None
    else:
        for value in step.values:
            yield plain(step.kind, value)


def _branches(number: int, term: AnyOf, whole: Filter | None) -> list[LookupPlan]:
    """A plan for each part of an ``or``; none when a part cannot be looked up."""
    if len(term.terms) > MAX_BRANCHES:
        return []
    found = [(part, *_steps(part)) for part in term.terms]
    if not all(steps for _, steps, _ in found):
        return []
    return [LookupPlan(number, steps, exact and whole is None, whole or part) for part, steps, exact in found]


def _steps(term: Filter) -> tuple[tuple[Step, ...], bool]:
    """The steps to a conjunction, the most telling first, and whether they say all."""
    terms = term.terms if isinstance(term, AllOf) else (term,)
    single: list[Step] = []
    several: list[OneOf] = []
    ranges: list[Range] = []
    for one in terms:
        if isinstance(one, OneOf) and one.kind != "now":
            (single if len(one.values) == 1 else several).append(one)
        elif isinstance(one, Null) and not one.negated:
            single.append(one)
        elif isinstance(one, Range) and one.kind != "now":
            ranges.append(one)
    several.sort(key=lambda one: len(one.values))
    ranges.sort(key=lambda one: one.low is None or one.high is None or one.kind == "text")
    steps = (*single[:MAX_EQUALITIES], *several[:1], *ranges[:1])
    return steps, len(steps) == len(terms)


def _names(term: Filter) -> Iterator[str]:
    if isinstance(term, (AllOf, AnyOf)):
        for one in term.terms:
            yield from _names(one)
    else:
        leaf: Leaf = term
        yield leaf.path[0]
