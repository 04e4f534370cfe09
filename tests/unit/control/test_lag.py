"""How far a build is behind, from looks alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.control_api import FEED, VIEW

from distributary.control.lag import Lag, Track, reached, read_topic, unseen, with_age
from distributary.control.observation import KafkaSight, Oldest
from distributary.model.build import Definition
from distributary.model.partition_state import SourceProgress, write_state
from distributary.model.position import Mark
from distributary.store.redis_codec import build_info
from distributary.store.store_types import BuildInfo

PLAIN = Definition(replace(VIEW, key=None), FEED)


def build(**meta: Any) -> BuildInfo:
    found = build_info({"epoch": "e", **{name: str(value) for name, value in meta.items()}}, 0, [])
    assert found is not None
    return found


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60))
def test_the_age_is_that_of_the_oldest_record_that_waits(steps: list[tuple[int, int]]) -> None:
    """Each second some records come and some are folded; a look follows."""
    track, came, done = Track(), list[int](), 0
    for second, (more, folded) in enumerate(steps):
        came += [second] * more
        done = min(len(came), done + folded)
        lag = track.look(float(second), build(records=done), {0: done}, {0: len(came)})
        waiting = came[done:]
        assert lag.records == len(waiting)
        assert lag.seconds == (second - waiting[0] if waiting else 0.0)
        assert 0 <= lag.still <= second


def test_records_that_wait_while_none_is_folded() -> None:
    track = Track()
    track.look(0.0, build(), {0: 5, 1: 5}, {0: 5, 1: 5})
    track.look(100.0, build(), {0: 5, 1: 5}, {0: 5, 1: 5})
    lag = track.look(101.0, build(), {0: 5, 1: 5}, {0: 6, 1: 5})
    assert (lag.records, lag.still) == (1, 1.0), "before that nothing waited"
    assert track.look(109.0, build(), {0: 5, 1: 5}, {0: 9, 1: 5}).still == 9.0
    lag = track.look(110.0, build(), {0: 6, 1: 5}, {0: 9, 1: 5})
    assert (lag.records, lag.still) == (3, 0.0), "it goes on"


def test_what_may_have_been_filtered_out_waits_for_nobody() -> None:
    track = Track()
    for at in (0.0, 50.0):
        lag = track.look(at, build(), {0: 0}, {0: 30}, slack=32)
    assert (lag.records, lag.seconds, lag.still) == (30, 0.0, 0.0)
    track.look(51.0, build(), {0: 0}, {0: 40}, slack=32)
    assert track.look(61.0, build(), {0: 0}, {0: 40}, slack=32).still == 11.0


def test_rates_are_of_the_last_seconds() -> None:
    track = Track()
    for second in range(10):
        lag = track.look(float(second), build(records=100 * second, seq=50 * second, dead=0), {}, {})
    assert (lag.rate, lag.changes, lag.dead) == (100.0, 50.0, 0)
    lag = track.look(10.0, build(records=1_000, seq=500, dead=3), {}, {})
    assert lag.dead == 3
    for second in range(11, 20):
        lag = track.look(float(second), build(records=1_000, seq=500, dead=3), {}, {})
    assert (lag.rate, lag.dead) == (0.0, 0)
    assert track.look(20.0, build(records=0, seq=0, dead=0), {}, {}).rate == 0.0, "it was begun anew"


def test_a_first_look_knows_no_rate() -> None:
    lag = Track().look(0.0, build(records=10), {0: 1}, {0: 4})
    assert (lag.rate, lag.records) == (None, 3)


def test_where_a_view_stands() -> None:
    ends, first = {0: 10, 1: 20, 2: 30}, {0: 0, 1: 0, 2: 7}
    there = build(**{"m:0": Mark(4, 1), "e:1": 15})
    assert reached(PLAIN, there, ends, first) == {0: 5, 1: 15, 2: 7}
    rekeyed = Definition(VIEW, FEED)
    memo = write_state(0, {0: SourceProgress(1, 8, 0, 8, 0, 0, 0)})
    there = build(**{"w:0": memo, "h:1": 12})
    assert reached(rekeyed, there, ends, first) == {0: 9, 1: 12, 2: 7}


def test_a_topic_that_was_not_seen_says_nothing() -> None:
    assert read_topic(PLAIN, None) is None
    assert read_topic(PLAIN, KafkaSight(False)) is None
    assert read_topic(PLAIN, KafkaSight(ends={"other": {0: 1}})) is None
    assert read_topic(PLAIN, KafkaSight(ends={FEED.topic: {0: 1}})) == ({0: 1}, {})


def test_only_a_filter_leaves_records_unseen() -> None:
    assert unseen(PLAIN, 4) == 0
    assert unseen(Definition(replace(VIEW, where="a > 1"), FEED), 4) == 128


def test_the_next_record_corrects_what_was_seen_late() -> None:
    lag = with_age(Lag(2, 3.0, 3.0, 0.0, 0.0, 0, {}), Oldest(0, 5, 40_000), 100_000)
    assert (lag.records, lag.seconds) == (2, 60.0)


def test_what_ends_a_transaction_in_one_partition_while_others_go_on() -> None:
    """Each partition gets a record and an end now and then, so that something always moves."""
    track, at, ends = Track(), {0: 0, 1: 0}, {0: 0, 1: 0}
    for second in range(60):
        if second % 7 == 0:
            partition = second // 7 % 2
            ends = {**ends, partition: ends[partition] + 2}
            at = {**at, partition: ends[partition] - 1}
        lag = track.look(float(second), build(), at, ends)
        if found := track.suspects(2.0):
            assert all(offset == ends[p] - 1 for p, offset in found.items())
            lag = track.nothing_at(found)
        assert lag.seconds <= 3.0
    ends = {0: ends[0] + 1, 1: ends[1]}
    for second in range(60, 65):
        lag = track.look(float(second), build(), at, ends)
    assert (lag.records, lag.seconds, lag.still) == (1, 4.0, 5.0), "a record that waits is seen"
    assert track.suspects(2.0) == {0: ends[0] - 1}
