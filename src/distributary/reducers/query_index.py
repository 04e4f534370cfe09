"""Live queries in indexes, so that the cost of a change depends on its matches, not on the number of queries.

Membership is decided from the old and the new row alone, so a restart loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from distributary.model.filter import RowView
from distributary.model.filter.normal_form import Range
from distributary.model.filter.row_view import Slot
from distributary.model.filter.scalars import Scalar
from distributary.model.query import Query
from distributary.model.query_plan import LookupPlan, place_of, plans, values_of
from distributary.reducers.range_index import Bounds, nearest
from distributary.reducers.row_json import Fields

SPLIT = 16
"""How many queries that share an equality are checked one by one; more are looked up by their next step."""


class Matches(NamedTuple):
    """Numbers of the queries that a change concerns, each list sorted."""

    adds: list[int]
    changes: list[int]
    removes: list[int]


class QueryIndex:
    """Finds the queries that a row belongs to.

    It maps steps to queries and each query to its steps, so that a query that is removed leaves nothing.
    """

    def __init__(self) -> None:
        self._plans: dict[int, list[LookupPlan]] = {}
        self._root = _Node()
        self._fields_read: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def sizes(self) -> dict[str, int]:
        """Count what is indexed, to show that it shrinks again.

        What is deeper belongs to what is counted here, and goes with it.
        """
        fields = self._root.fields.values()
        return {
            "queries": len(self._plans),
            "fields_read": len(self._fields_read),
            "fields": len(fields),
            "values": sum(len(field.equal) for field in fields),
            "bounds": sum(len(side) for field in fields for side in (field.numbers, field.texts) if side),
            "rest": len(self._root.here),
        }

    def numbers(self) -> Iterable[int]:
        """The numbers of all queries."""
        return self._plans.keys()

    def add(self, number: int, query: Query) -> None:
        """Add a query; nothing happens if it is there."""
        if number in self._plans:
            return
        self._plans[number] = plans(number, query)
        for plan in self._plans[number]:
            self._root.add(plan, 0)
            for name in plan.names():
                self._fields_read[name] = self._fields_read.get(name, 0) + 1

    def remove(self, number: int) -> None:
        """Remove a query, if it is there."""
        for plan in self._plans.pop(number, ()):
            self._root.remove(plan, 0)
            for name in plan.names():
                self._fields_read[name] -= 1
                if not self._fields_read[name]:
                    del self._fields_read[name]

    def clear(self) -> None:
        """Remove all queries."""
        self.__init__()  # type: ignore[misc]

    def of(self, key: str, row: Fields | None, now_ms: int = 0) -> set[int]:
        """Return the queries that a row belongs to at a time; none without a row."""
        return self._of(RowView(row, now_ms, key)) if row is not None else set()

    def match(self, key: str, old: Fields | None, new: Fields | None, now_ms: int = 0) -> Matches:
        """Return what a change of one row means to each query that it concerns, at one time."""
        if not self._plans:
            return Matches([], [], [])
        after: set[int] = set()
        new_view: RowView | None = None
        if new is not None:
            new_view = RowView(new, now_ms, key)
            after = self._of(new_view)
        if old is None:
            before: set[int] = set()
        elif new is not None and self._is_unchanged(old, new):
            before = after
        else:
            before = self._of(RowView(old, now_ms, key, new_view))
        if before == after:
            return Matches([], sorted(after), [])
        return Matches(sorted(after - before), sorted(after & before), sorted(before - after))

    def _of(self, row: RowView) -> set[int]:
        found: set[int] = set()
        self._root.find(row, found, 0)
        return found

    def _is_unchanged(self, old: Fields, new: Fields) -> bool:
        """Whether no field that any query reads has changed."""
        for name in self._fields_read:
            one, other = old.get(name), new.get(name)
            if one is not other and one != other:
                return False
        return True


class _Node:
    """The plans that arrive here, by their next step; ``here`` are those that have none."""

    __slots__ = ("fields", "here")

    def __init__(self) -> None:
        self.here: set[LookupPlan] = set()
        self.fields: dict[Slot, _Field] = {}

    def __bool__(self) -> bool:
        return bool(self.here or self.fields)

    def add(self, plan: LookupPlan, depth: int) -> None:
        if depth == len(plan.steps):
            self.here.add(plan)
            return
        step = plan.steps[depth]
        slot = place_of(step)
        field = self.fields.get(slot)
        if field is None:
            field = self.fields[slot] = _Field()
        if isinstance(step, Range):
            field.bounds(step).add(step, plan)
        else:
            for value in values_of(step):
                field.put(value, plan, depth + 1)

    def remove(self, plan: LookupPlan, depth: int) -> None:
        if depth == len(plan.steps):
            self.here.discard(plan)
            return
        step = plan.steps[depth]
        slot = place_of(step)
        field = self.fields[slot]
        if isinstance(step, Range):
            field.bounds(step).remove(step, plan)
        else:
            for value in values_of(step):
                field.take(value, plan, depth + 1)
        if not field:
            del self.fields[slot]

    def find(self, row: RowView, found: set[int], depth: int) -> None:
        for plan in self.here:
            if plan.exact or plan.test(row):
                found.add(plan.number)
        for slot, field in self.fields.items():
            field.find(row[slot], row, found, depth + 1)


class _Field:
    """The next steps on one field: by the value that it equals, and by the ranges that contain it.

    A bucket is one plan, a set of a few, or a node with their next steps.
    """

    __slots__ = ("equal", "numbers", "texts")

    def __init__(self) -> None:
        self.equal: dict[Scalar, LookupPlan | set[LookupPlan] | _Node] = {}
        self.numbers: Bounds | None = None
        self.texts: Bounds | None = None

    def __bool__(self) -> bool:
        return bool(self.equal or self.numbers or self.texts)

    def bounds(self, step: Range) -> Bounds:
        if step.kind == "text":
            if self.texts is None:
                self.texts = Bounds(texts=True)
            return self.texts
        if self.numbers is None:
            self.numbers = Bounds(texts=False)
        return self.numbers

    def put(self, value: Scalar, plan: LookupPlan, depth: int) -> None:
        bucket = self.equal.get(value)
        if bucket is None:
            self.equal[value] = plan
        elif isinstance(bucket, LookupPlan):
            self.equal[value] = {bucket, plan}
        elif isinstance(bucket, _Node):
            bucket.add(plan, depth)
        else:
            bucket.add(plan)
            if len(bucket) > SPLIT:
                node = self.equal[value] = _Node()
                for one in bucket:
                    node.add(one, depth)

    def take(self, value: Scalar, plan: LookupPlan, depth: int) -> None:
        bucket = self.equal[value]
        if isinstance(bucket, _Node):
            bucket.remove(plan, depth)
        elif isinstance(bucket, set):
            bucket.discard(plan)
        if bucket is plan or not bucket:
            del self.equal[value]

    def find(self, value: Scalar, row: RowView, found: set[int], depth: int) -> None:
        bucket = self.equal.get(value)
        if bucket is not None:
            if isinstance(bucket, _Node):
                bucket.find(row, found, depth)
            else:
                for plan in (bucket,) if isinstance(bucket, LookupPlan) else bucket:
                    if (plan.exact and len(plan.steps) == depth) or plan.test(row):
                        found.add(plan.number)
        if self.numbers is not None and isinstance(value, (int, Decimal)):
            self.numbers.find(nearest(value), row, found)
        elif self.texts is not None and isinstance(value, str):
            self.texts.find(value, row, found)
