"""Sorted ranges find what the ranges themselves say, for numbers that floats can and cannot tell apart."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_filters import numerals

from distributary.model.filter import RowView, compiled
from distributary.model.filter.normal_form import Range
from distributary.model.query_plan import LookupPlan
from distributary.reducers.range_index import Bounds, nearest

near = st.sampled_from(
    ["1", "1.00000000000000000001", "0.99999999999999999999", "1e308", "2e308", "-2e308", "1e-330"]
)
numbers = (numerals | near).map(Decimal) | st.integers(-40, 40)
words = st.text("abc", max_size=3)


def ranges(values: st.SearchStrategy[Any], kind: Any) -> st.SearchStrategy[Range]:
    bound = st.tuples(values, st.booleans())
    two = st.tuples(bound, bound).filter(lambda ends: ends[0][0] < ends[1][0])
    ends = bound.map(lambda low: (low, None)) | bound.map(lambda high: (None, high)) | two
    return ends.map(lambda pair: Range(("a",), kind, *pair))


def check(found: list[Range], values: list[Any], gone: set[int], exact: bool, texts: bool) -> None:
    bounds = Bounds(texts)
    plans = [LookupPlan(number, (one,), exact, one) for number, one in enumerate(found)]
    for plan, one in zip(plans, found, strict=True):
        bounds.add(one, plan)
    for number in gone:
        bounds.remove(found[number], plans[number])
    assert len(bounds) == len(found) - len(gone)
    for value in values:
        row = RowView({})
        row["a"] = value
        found_numbers: set[int] = set()
        bounds.find(value if texts else nearest(value), row, found_numbers)
        wanted = {number for number, one in enumerate(found) if compiled(one)(row)}
        assert found_numbers == wanted - gone
    for number in set(range(len(found))) - gone:
        bounds.remove(found[number], plans[number])
    assert not bounds


@given(
    st.lists(ranges(numbers, "number"), max_size=12), st.lists(numbers, max_size=8), st.data(), st.booleans()
)
def test_numeric_ranges_contain_the_same_values_as_the_reference(
    found: list[Range], values: list[Any], data: st.DataObject, exact: bool
) -> None:
    gone = data.draw(st.sets(st.sampled_from(range(len(found))))) if found else set()
    check(found, values, gone, exact, texts=False)


@given(st.lists(ranges(words, "text"), max_size=12), st.lists(words, max_size=8), st.data(), st.booleans())
def test_string_ranges_contain_the_same_values_as_the_reference(
    found: list[Range], values: list[Any], data: st.DataObject, exact: bool
) -> None:
    gone = data.draw(st.sets(st.sampled_from(range(len(found))))) if found else set()
    check(found, values, gone, exact, texts=True)


@given(numbers, numbers)
def test_nearest_floats_preserve_the_order_of_numbers(one: int | Decimal, other: int | Decimal) -> None:
    if one <= other:
        assert nearest(one) <= nearest(other)


def test_range_is_searched_among_ranges_of_similar_length() -> None:
    """One long range must not make a value meet all short ones."""
    bounds = Bounds(texts=False)
    tested: list[int] = []

    class Watched(LookupPlan):
        def test(self, row: RowView) -> bool:
            tested.append(self.number)
            return super().test(row)

    for number in range(1_000):
        step = Range(("a",), "number", (number, True), (number + (1 if number else 10**6), True))
        bounds.add(step, Watched(number, (step,), False, step))
    row = RowView({})
    row["a"] = 500
    found: set[int] = set()
    bounds.find(500.0, row, found)
    assert found == {0, 499, 500}
    assert len(tested) < 6
