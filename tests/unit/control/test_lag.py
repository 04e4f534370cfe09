"""How far a build is behind, from looks alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.control_api import FEED, VIEW

from distributary.control.lag import Lag, LagTracker, folded_offsets, max_filtered, read_topic, with_age
from distributary.control.observation import KafkaObservation, NextRecord
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
    """Each second some records arrive and some are folded; an observation follows."""
    track, came, done = LagTracker(), list[int](), 0
    for second, (more, folded) in enumerate(steps):
        came += [second] * more
        done = min(len(came), done + folded)
        lag = track.observe(float(second), build(records=done), {0: done}, {0: len(came)})
        waiting = came[done:]
        assert lag.records == len(waiting)
        assert lag.seconds == (second - waiting[0] if waiting else 0.0)
        assert 0 <= lag.stalled_for <= second


def test_stalled_view_raises_an_alarm() -> None:
    track = LagTracker()
    track.observe(0.0, build(), {0: 5, 1: 5}, {0: 5, 1: 5})
    track.observe(100.0, build(), {0: 5, 1: 5}, {0: 5, 1: 5})
    lag = track.observe(101.0, build(), {0: 5, 1: 5}, {0: 6, 1: 5})
    assert (lag.records, lag.stalled_for) == (1, 1.0), "before that nothing waited"
    assert track.observe(109.0, build(), {0: 5, 1: 5}, {0: 9, 1: 5}).stalled_for == 9.0
    lag = track.observe(110.0, build(), {0: 6, 1: 5}, {0: 9, 1: 5})
    assert (lag.records, lag.stalled_for) == (3, 0.0), "it goes on"


def test_filtered_records_are_no_lag() -> None:
    track = LagTracker()
    for at in (0.0, 50.0):
        lag = track.observe(at, build(), {0: 0}, {0: 30}, slack=32)
    assert (lag.records, lag.seconds, lag.stalled_for) == (30, 0.0, 0.0)
    track.observe(51.0, build(), {0: 0}, {0: 40}, slack=32)
    assert track.observe(61.0, build(), {0: 0}, {0: 40}, slack=32).stalled_for == 11.0


def test_rates_are_of_the_last_seconds() -> None:
    track = LagTracker()
    for second in range(10):
        lag = track.observe(float(second), build(records=100 * second, seq=50 * second, dead=0), {}, {})
    assert (lag.rate, lag.changes, lag.dead) == (100.0, 50.0, 0)
    lag = track.observe(10.0, build(records=1_000, seq=500, dead=3), {}, {})
    assert lag.dead == 3
    for second in range(11, 20):
        lag = track.observe(float(second), build(records=1_000, seq=500, dead=3), {}, {})
    assert (lag.rate, lag.dead) == (0.0, 0)
    assert track.observe(20.0, build(records=0, seq=0, dead=0), {}, {}).rate == 0.0, "it was begun anew"


def test_first_observation_has_no_rate() -> None:
    lag = LagTracker().observe(0.0, build(records=10), {0: 1}, {0: 4})
    assert (lag.rate, lag.records) == (None, 3)


def test_folded_offsets_follow_the_marks() -> None:
    ends, first = {0: 10, 1: 20, 2: 30}, {0: 0, 1: 0, 2: 7}
    there = build(**{"m:0": Mark(4, 1), "e:1": 15})
    assert folded_offsets(PLAIN, there, ends, first) == {0: 5, 1: 15, 2: 7}
    rekeyed = Definition(VIEW, FEED)
    memo = write_state(0, {0: SourceProgress(1, 8, 0, 8, 0, 0, 0)})
    there = build(**{"w:0": memo, "h:1": 12})
    assert folded_offsets(rekeyed, there, ends, first) == {0: 9, 1: 12, 2: 7}


def test_unknown_topic_has_no_lag() -> None:
    assert read_topic(PLAIN, None) is None
    assert read_topic(PLAIN, KafkaObservation(False)) is None
    assert read_topic(PLAIN, KafkaObservation(ends={"other": {0: 1}})) is None
    assert read_topic(PLAIN, KafkaObservation(ends={FEED.topic: {0: 1}})) == ({0: 1}, {})


def test_only_a_filter_leaves_records_unmarked() -> None:
    assert max_filtered(PLAIN, 4) == 0
    assert max_filtered(Definition(replace(VIEW, where="a > 1"), FEED), 4) == 128


def test_lag_is_corrected_by_the_age_of_the_next_record() -> None:
    lag = with_age(Lag(2, 3.0, 3.0, 0.0, 0.0, 0, {}), NextRecord(0, 5, 40_000), 100_000)
    assert (lag.records, lag.seconds) == (2, 60.0)


def test_transaction_marker_in_one_partition_is_no_lag() -> None:
    """Each partition gets a record and an end now and then, so that something always moves."""
    track, at, ends = LagTracker(), {0: 0, 1: 0}, {0: 0, 1: 0}
    for second in range(60):
        if second % 7 == 0:
            partition = second // 7 % 2
            ends = {**ends, partition: ends[partition] + 2}
            at = {**at, partition: ends[partition] - 1}
        lag = track.observe(float(second), build(), at, ends)
        if found := track.stalled(2.0):
            assert all(offset == ends[p] - 1 for p, offset in found.items())
            lag = track.note_empty(found)
        assert lag.seconds <= 3.0
    ends = {0: ends[0] + 1, 1: ends[1]}
    for second in range(60, 65):
        lag = track.observe(float(second), build(), at, ends)
    assert (lag.records, lag.seconds, lag.stalled_for) == (1, 4.0, 5.0), "a record that waits is seen"
    assert track.stalled(2.0) == {0: ends[0] - 1}
