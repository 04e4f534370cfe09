"""Groups are as large as their time allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.reducers.write_batch import FIRST_RECORDS, FOLD_SECONDS, MAX_RECORDS, GroupSize


def test_group_size_grows_to_the_maximum_while_groups_are_quick() -> None:
    size = GroupSize()
    assert size.records == FIRST_RECORDS
    for _ in range(10):
        size.took(size.records, 0.001)
    assert size.records == MAX_RECORDS


def test_group_size_shrinks_at_once_when_a_group_is_slow() -> None:
    size = GroupSize()
    for _ in range(10):
        size.took(size.records, 0.001)
    size.took(MAX_RECORDS, MAX_RECORDS * 0.004)
    assert size.records * 0.004 <= FOLD_SECONDS
    size.took(1, 30.0)
    assert size.records == 1


def test_group_size_stays_when_few_records_were_available() -> None:
    size = GroupSize()
    size.took(1, 0.0001)
    assert size.records == FIRST_RECORDS


def test_group_size_is_halved_when_a_group_is_too_large() -> None:
    size = GroupSize()
    for _ in range(20):
        size.too_large(size.records)
    assert size.records == 1
    size.took(1, 0.001)
    assert size.records == 2, "it grows again"


@given(st.lists(st.tuples(st.integers(0, MAX_RECORDS), st.floats(0, 100)), max_size=50))
def test_group_size_is_between_one_and_the_maximum(steps: list[tuple[int, float]]) -> None:
    size = GroupSize()
    for records, seconds in steps:
        size.took(records, seconds)
        assert 1 <= size.records <= MAX_RECORDS
