"""How often a connection may speak."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.websocket.flow_control import CommandRate, Verdict


def test_a_burst_then_the_rate_then_enough() -> None:
    rate = CommandRate(10, 20)
    assert [rate.take(100.0) for _ in range(20)] == [Verdict.ALLOWED] * 20
    assert rate.take(100.0) == Verdict.LIMITED
    assert rate.take(100.2) == Verdict.ALLOWED
    assert [rate.take(100.2) for _ in range(20)] == [Verdict.LIMITED] * 20
    assert rate.take(100.2) == Verdict.FLOOD


def test_whoever_keeps_to_the_rate_is_never_refused() -> None:
    rate = CommandRate(10, 3)
    assert {rate.take(n / 10) for n in range(1_000)} == {Verdict.ALLOWED}


@given(st.lists(st.floats(0, 5), max_size=200), st.integers(1, 50), st.integers(1, 50))
def test_never_more_than_the_burst_and_the_rate(gaps: list[float], per_second: int, burst: int) -> None:
    rate, now, said = CommandRate(per_second, burst), 0.0, 0
    for gap in gaps:
        now += gap
        said += rate.take(now) == Verdict.ALLOWED
        assert said <= burst + now * per_second + 1e-6
