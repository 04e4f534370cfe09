"""Groups are as large as their time allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.reducers.write_batch import FIRST_RECORDS, FOLD_SECONDS, MAX_RECORDS, GroupSize


def test_quick_groups_grow_to_the_most() -> None:
    size = GroupSize()
    assert size.records == FIRST_RECORDS
    for _ in range(10):
        size.took(size.records, 0.001)
    assert size.records == MAX_RECORDS


def test_slow_records_make_small_groups_at_once() -> None:
    size = GroupSize()
    for _ in range(10):
        size.took(size.records, 0.001)
    size.took(MAX_RECORDS, MAX_RECORDS * 0.004)
    assert size.records * 0.004 <= FOLD_SECONDS
    size.took(1, 30.0)
    assert size.records == 1


def test_a_group_with_few_records_to_take_does_not_grow() -> None:
    size = GroupSize()
    size.took(1, 0.0001)
    assert size.records == FIRST_RECORDS


def test_too_large_groups_are_halved_down_to_one_record() -> None:
    size = GroupSize()
    for _ in range(20):
        size.too_large(size.records)
    assert size.records == 1
    size.took(1, 0.001)
    assert size.records == 2, "it grows again"


@given(st.lists(st.tuples(st.integers(0, MAX_RECORDS), st.floats(0, 100)), max_size=50))
def test_it_is_never_none_and_never_more_than_the_most(steps: list[tuple[int, float]]) -> None:
    size = GroupSize()
    for records, seconds in steps:
        size.took(records, seconds)
        assert 1 <= size.records <= MAX_RECORDS
