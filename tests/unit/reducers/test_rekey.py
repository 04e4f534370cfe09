"""Which views are re-keyed is decided from the configuration."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from distributary.model.build import Build
from distributary.reducers.rekey import CLEARING_SECONDS, Clearing, internal_topic


def test_internal_topic_differs_by_build() -> None:
    assert internal_topic(Build("v", "a")) != internal_topic(Build("v", "b"))


def test_rekeyed_records_are_deleted_a_minute_after_they_were_folded() -> None:
    clearing = Clearing(0.0)
    assert clearing.due(CLEARING_SECONDS - 1, lambda: {0: 10}) == {}
    assert clearing.due(CLEARING_SECONDS, lambda: {0: 10}) == {}, "it is not known since when they are folded"
    assert clearing.due(CLEARING_SECONDS + 1, lambda: {0: 20}) == {}
    assert clearing.due(2 * CLEARING_SECONDS, lambda: {0: 20, 1: 5}) == {0: 10}
    assert clearing.due(3 * CLEARING_SECONDS, lambda: {0: 20, 1: 5}) == {0: 20, 1: 5}


def test_partition_that_went_back_keeps_what_it_needs() -> None:
    clearing = Clearing(0.0)
    clearing.due(CLEARING_SECONDS, lambda: {0: 10, 1: 10})
    assert clearing.due(2 * CLEARING_SECONDS, lambda: {0: 4}) == {0: 4}


steps = st.lists(st.tuples(st.floats(0.1, 200), st.integers(-5, 20)), max_size=30)


@given(steps)
def test_clearing_keeps_what_a_store_that_lost_its_last_minute_needs(
    steps: list[tuple[float, int]],
) -> None:
    now, mark = 0.0, 0
    clearing = Clearing(now)
    history: list[tuple[float, int]] = [(now, mark)]
    for passed, folded in steps:
        now, mark = now + passed, max(0, mark + folded)
        history.append((now, mark))
        for before in clearing.due(now, partial(dict[int, int], {0: mark})).values():
            then = [at for when, at in history if when <= now - CLEARING_SECONDS]
            assert before <= max(then, default=0)
            assert before <= mark
