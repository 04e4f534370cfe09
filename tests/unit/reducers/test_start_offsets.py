"""Where a build starts, and what it says when records it needs are gone."""

from __future__ import annotations

import pytest

from distributary.model.partition_state import EventProgress, write_state
from distributary.model.position import Mark
from distributary.model.view import View
from distributary.reducers.start_offsets import (
    StartOffsets,
    event_start_offsets,
    events_lag,
    start_offsets,
)
from distributary.reducers.topic_identity import Truncated

VIEW = View("v", "f")


def test_new_build_starts_where_its_view_says() -> None:
    assert start_offsets(VIEW, {}, {0: 0, 1: 0}, {0: 9, 1: 9}, {0: 0, 1: 0}) == StartOffsets(
        {0: 0, 1: 0}, 18, False
    )
    assert start_offsets(View("v", "f", start="now"), {}, {0: 0}, {0: 9}, {0: 9}) == StartOffsets(
        {0: 9}, 0, False
    )


def test_build_continues_from_its_marks() -> None:
    found = start_offsets(VIEW, {0: Mark(5, 1), 1: Mark(9)}, {0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 3}, {2: 0})
    assert found == StartOffsets({0: 5, 1: 9, 2: 0}, 3 + 0 + 3, False)


def test_build_is_incomplete_when_retention_removed_records() -> None:
    assert start_offsets(VIEW, {}, {0: 4}, {0: 9}, {0: 4}).incomplete
    assert not start_offsets(View("v", "f", reduce="latest"), {}, {0: 4}, {0: 9}, {0: 4}).incomplete
    assert start_offsets(VIEW, {0: Mark(3)}, {0: 4}, {0: 9}, {}) == StartOffsets({0: 4}, 6, True)
    # The record at the mark itself is folded already: nothing is missing.
    assert start_offsets(VIEW, {0: Mark(3, 1)}, {0: 4}, {0: 9}, {}) == StartOffsets({0: 4}, 5, False)


def test_topic_that_ends_before_the_mark_is_truncated() -> None:
    with pytest.raises(Truncated):
        start_offsets(VIEW, {0: Mark(10)}, {0: 0}, {0: 9}, {})
    with pytest.raises(Truncated):
        start_offsets(VIEW, {0: Mark(9, 1)}, {0: 0}, {0: 9}, {})
    assert start_offsets(VIEW, {0: Mark(9)}, {0: 0}, {0: 9}, {}).starts == {0: 9}


def test_events_start_with_the_view_and_continue_from_what_is_stored() -> None:
    states = {
        0: write_state(0, {}, EventProgress("t", 5)),
        1: write_state(3, {}, EventProgress("t", 7, "k")),
        2: "",
    }
    assert event_start_offsets(VIEW, {}, "t", 0, 9, 0) == StartOffsets({0: 0}, 0, False)
    assert event_start_offsets(VIEW, states, "t", 0, 9, 2) == StartOffsets({0: 2}, 4, False)
    assert event_start_offsets(VIEW, states, "t", 6, 9, 0) == StartOffsets({0: 6}, 4, True)
    assert event_start_offsets(VIEW, {}, "t", 6, 9, 0).incomplete
    assert not event_start_offsets(View("v", "f", start="now"), {}, "t", 6, 9, 9).incomplete
    assert (events_lag(states, 9), events_lag(states, 4), events_lag({}, 9)) == (4, 0, 0)


def test_another_event_topic_is_truncated() -> None:
    for reached, end in (
        (EventProgress("old", 5), 9),
        (EventProgress("t", 10), 9),
        (EventProgress("t", 9, "k"), 9),
    ):
        with pytest.raises(Truncated):
            event_start_offsets(VIEW, {0: write_state(0, {}, reached)}, "t", 0, end, 0)
