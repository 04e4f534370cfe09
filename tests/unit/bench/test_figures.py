"""Percentiles, targets, and when a rate counts as held."""

from __future__ import annotations

import pytest
from bench.figures import Sample, Target, judge, percentile, summary


def test_a_percentile_is_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 1001)]
    assert percentile(values, 0.5) == 500
    assert percentile(values, 0.99) == 990
    assert percentile(values, 0.999) == 999
    assert percentile(values, 1.0) == 1000
    assert percentile([7.0], 0.5) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_summary_does_not_need_sorted_values() -> None:
    assert summary("x", [3.0, 1.0, 2.0]) == {
        "x_p50_ms": 2.0,
        "x_p99_ms": 3.0,
        "x_p999_ms": 3.0,
        "x_max_ms": 3.0,
    }


def test_targets_are_limits_that_may_be_reached() -> None:
    assert Target("<=", 8).met(8.0)
    assert not Target("<=", 8).met(8.001)
    assert Target(">=", 1.5).met(1.5)
    assert not Target(">=", 1.5).met(1.499)
    assert str(Target(">=", 10_000)) == ">= 10,000"


def _samples(rate: float, folded_rate: float, lag: int = 0, seconds: int = 60) -> list[Sample]:
    return [
        Sample(t / 2, round(rate * t / 2) + lag, round(folded_rate * t / 2)) for t in range(2 * seconds + 1)
    ]


def test_a_constant_small_lag_is_held() -> None:
    verdict = judge(_samples(10_000, 10_000, lag=400), 10_000, 2.0)
    assert verdict.sustained, verdict.why
    assert verdict.rate == pytest.approx(10_000)
    assert (verdict.lag_end, verdict.lag_max) == (400, 400)


def test_a_lag_that_grows_is_not_held_although_it_is_small_yet() -> None:
    verdict = judge(_samples(10_000, 9_800, seconds=60), 10_000, 2.0)
    assert not verdict.sustained
    assert "grows by 200 rec/s" in verdict.why


def test_a_large_lag_is_not_held_although_it_is_constant() -> None:
    verdict = judge(_samples(10_000, 10_000, lag=20_001), 10_000, 2.0)
    assert not verdict.sustained
    assert "20,001 records behind" in verdict.why


def test_a_producer_that_is_too_slow_shows_nothing() -> None:
    verdict = judge(_samples(9_000, 9_000), 10_000, 2.0)
    assert not verdict.sustained
    assert "only 9,000 rec/s were produced" in verdict.why


def test_a_backlog_from_before_is_no_merit() -> None:
    verdict = judge(_samples(10_000, 10_300, lag=18_000), 10_000, 2.0)
    assert verdict.sustained
    assert verdict.rate == pytest.approx(10_000)


def test_one_pause_at_the_end_is_forgiven_and_seen() -> None:
    samples = _samples(10_000, 10_000, lag=100)
    last = samples[-1]
    samples[-1] = Sample(last.at, last.ends, last.folded - 40_000)
    verdict = judge(samples, 10_000, 2.0)
    assert verdict.lag_end == 100
    assert verdict.lag_max == 40_100
