"""How many workers there should be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.workers.autoscaler import Autoscaler, WorkerLimits, parse_limits

any_limits = st.builds(
    lambda least, more: WorkerLimits(least, 0 if more is None else max(1, least + more)),
    st.integers(0, 12),
    st.none() | st.integers(0, 12),
)


@given(
    any_limits,
    st.lists(
        st.tuples(st.floats(0, 60), st.none() | st.integers(0, 50_000), st.integers(1, 12)), max_size=40
    ),
)
def test_autoscaler_stays_within_limits_and_partitions(
    limits: WorkerLimits, steps: list[tuple[float, int | None, int]]
) -> None:
    scaler, now, running = Autoscaler(100, 30.0), 0.0, 0
    for passed, lag, partitions in steps:
        now += passed
        running = scaler.decide(now, lag, running, partitions, limits)
        assert running <= partitions
        assert running >= min(limits.minimum, partitions, limits.maximum or partitions)
        assert not limits.maximum or running <= limits.maximum


@given(any_limits, st.integers(0, 5_000), st.integers(0, 12), st.integers(1, 12))
def test_autoscaler_settles_while_nothing_changes(
    limits: WorkerLimits, lag: int, running: int, partitions: int
) -> None:
    scaler, seen = Autoscaler(100, 3.0), [running]
    for now in range(80):
        seen.append(scaler.decide(float(now), lag, seen[-1], partitions, limits))
    steps = [after - before for before, after in pairwise(seen[1:]) if after != before]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps)
    assert seen[-1] == seen[-20], "it comes to rest"


def test_autoscaler_adds_at_once_and_removes_one_by_one_after_a_calm() -> None:
    scaler, limits = Autoscaler(1_000, 30.0), WorkerLimits(1, 0)
    assert scaler.decide(0.0, 5_500, 1, 8, limits) == 6
    assert scaler.decide(1.0, 0, 6, 8, limits) == 6
    assert scaler.decide(30.9, 0, 6, 8, limits) == 6
    assert scaler.decide(31.0, 0, 6, 8, limits) == 5
    assert scaler.decide(32.0, 0, 5, 8, limits) == 5
    assert scaler.decide(61.0, 0, 5, 8, limits) == 4


def test_calm_starts_again_when_the_lag_returns() -> None:
    scaler, limits = Autoscaler(1_000, 30.0), WorkerLimits(1, 0)
    assert scaler.decide(0.0, 100, 3, 8, limits) == 3
    assert scaler.decide(29.0, 1_400, 3, 8, limits) == 3
    assert scaler.decide(31.0, 100, 3, 8, limits) == 3
    assert scaler.decide(60.9, 100, 3, 8, limits) == 3
    assert scaler.decide(61.0, 100, 3, 8, limits) == 2


def test_unknown_lag_changes_nothing() -> None:
    scaler = Autoscaler(1_000, 0.0)
    assert [scaler.decide(float(now), None, 3, 8, WorkerLimits(1, 0)) for now in range(3)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("3", WorkerLimits(3, 3)),
        ("1..4", WorkerLimits(1, 4)),
        ("2..", WorkerLimits(2, 0)),
        ("0", WorkerLimits(0, 0)),
    ],
)
def test_limits_are_parsed(text: str, limits: WorkerLimits) -> None:
    assert parse_limits(text) == limits


@pytest.mark.parametrize("text", ["", "x", "4..1", "-1", "1..0", "1..x", ".."])
def test_invalid_limits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of workers"):
        parse_limits(text)
