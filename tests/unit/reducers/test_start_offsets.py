"""Where a build starts, and what it says when records it needs are gone."""

from __future__ import annotations

import pytest

from distributary.model.position import Mark
from distributary.model.view import View
from distributary.reducers.partition_state import Reached, write_memo
from distributary.reducers.start_offsets import (
    Places,
    Truncated,
    event_places,
    events_lag,
    folded,
    places,
    source_places,
)

VIEW = View("v", "f")


def test_a_new_build_starts_where_its_view_says() -> None:
    assert places(VIEW, {}, {0: 0, 1: 0}, {0: 9, 1: 9}, {0: 0, 1: 0}) == Places({0: 0, 1: 0}, 18, False)
    assert places(View("v", "f", start="now"), {}, {0: 0}, {0: 9}, {0: 9}) == Places({0: 9}, 0, False)


def test_a_build_goes_on_from_its_marks() -> None:
    found = places(VIEW, {0: Mark(5, 1), 1: Mark(9)}, {0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 3}, {2: 0})
    assert found == Places({0: 5, 1: 9, 2: 0}, 3 + 0 + 3, False)


def test_records_that_retention_took_make_it_incomplete() -> None:
    assert places(VIEW, {}, {0: 4}, {0: 9}, {0: 4}).incomplete
    assert not places(View("v", "f", reduce="latest"), {}, {0: 4}, {0: 9}, {0: 4}).incomplete
    assert places(VIEW, {0: Mark(3)}, {0: 4}, {0: 9}, {}) == Places({0: 4}, 6, True)
    # The record at the mark itself is folded already: nothing is missing.
    assert places(VIEW, {0: Mark(3, 1)}, {0: 4}, {0: 9}, {}) == Places({0: 4}, 5, False)


def test_a_topic_that_ends_before_the_mark_is_another_topic() -> None:
    with pytest.raises(Truncated):
        places(VIEW, {0: Mark(10)}, {0: 0}, {0: 9}, {})
    with pytest.raises(Truncated):
        places(VIEW, {0: Mark(9, 1)}, {0: 0}, {0: 9}, {})
    assert places(VIEW, {0: Mark(9)}, {0: 0}, {0: 9}, {}).starts == {0: 9}


def test_a_record_in_parts_counts_as_done() -> None:
    assert folded(Mark(5, 1), 0) == 6
    assert folded(None, 7) == 7


def test_a_rekeyed_view_stands_where_its_reducers_saw_its_source() -> None:
    memos = {0: "0 0:1,41,0,41,0,9,77;1:1,3,0,3,0,0,0", 1: "0 0:1,39,0,39,0,0,0"}
    assert source_places(memos, {0: 10, 1: 10}, {0: 0, 1: 0, 2: 5}) == {0: 42, 1: 10, 2: 5}


def test_events_begin_where_the_view_does_and_go_on_from_what_is_stored() -> None:
    memos = {0: write_memo(0, {}, Reached("t", 5)), 1: write_memo(3, {}, Reached("t", 7, "k")), 2: ""}
    assert event_places(VIEW, {}, "t", 0, 9, 0) == Places({0: 0}, 0, False)
    assert event_places(VIEW, memos, "t", 0, 9, 2) == Places({0: 2}, 4, False)
    assert event_places(VIEW, memos, "t", 6, 9, 0) == Places({0: 6}, 4, True)
    assert event_places(VIEW, {}, "t", 6, 9, 0).incomplete
    assert not event_places(View("v", "f", start="now"), {}, "t", 6, 9, 9).incomplete
    assert (events_lag(memos, 9), events_lag(memos, 4), events_lag({}, 9)) == (4, 0, 0)


def test_another_topic_of_events_is_seen() -> None:
    for reached, end in ((Reached("old", 5), 9), (Reached("t", 10), 9), (Reached("t", 9, "k"), 9)):
        with pytest.raises(Truncated):
            event_places(VIEW, {0: write_memo(0, {}, reached)}, "t", 0, end, 0)
