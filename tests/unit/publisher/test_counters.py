"""Counters and delays."""

from __future__ import annotations

from distributary.publisher.counters import WINDOW, Latency


def test_percentiles_are_of_late() -> None:
    clock = [1000.0]
    latency = Latency(lambda: clock[0])
    assert latency.percentile(0.5) is None
    latency.observe_all([1_000_000 - 10] * 98 + [1_000_000 - 900] * 2)
    assert 10 <= (latency.percentile(0.5) or 0) <= 12
    assert 900 <= (latency.percentile(0.99) or 0) <= 1100
    clock[0] += 3 * WINDOW
    assert latency.percentile(0.5) is None
    assert latency.total == 100
    assert dict(latency.cumulative())[latency.cumulative()[-1][0]] == 100


def test_nothing_is_counted_twice_or_lost_when_windows_turn() -> None:
    clock = [1000.0]
    latency = Latency(lambda: clock[0])
    for _ in range(10):
        latency.observe_all([int(clock[0] * 1000) - 5])
        clock[0] += WINDOW * 0.7
    assert latency.cumulative()[-1][1] == latency.total == 10


def test_delays_out_of_range() -> None:
    latency = Latency(lambda: 1000.0)
    latency.observe_all([2_000_000, -10_000_000])
    assert latency.percentile(0.1) == 1.0
    assert latency.total == 2
    assert latency.sum == 11_000_000
