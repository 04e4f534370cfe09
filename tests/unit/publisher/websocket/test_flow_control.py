"""How often a connection may speak."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.websocket.flow_control import CommandRate, Verdict


def test_burst_is_allowed_then_the_rate_then_it_is_a_flood() -> None:
    rate = CommandRate(10, 20)
    assert [rate.take(100.0) for _ in range(20)] == [Verdict.ALLOWED] * 20
    assert rate.take(100.0) == Verdict.LIMITED
    assert rate.take(100.2) == Verdict.ALLOWED
    assert [rate.take(100.2) for _ in range(20)] == [Verdict.LIMITED] * 20
    assert rate.take(100.2) == Verdict.FLOOD


def test_client_within_the_rate_is_never_limited() -> None:
    rate = CommandRate(10, 3)
    assert {rate.take(n / 10) for n in range(1_000)} == {Verdict.ALLOWED}


@given(st.lists(st.floats(0, 5), max_size=200), st.integers(1, 50), st.integers(1, 50))
def test_burst_and_rate_are_never_exceeded(gaps: list[float], per_second: int, burst: int) -> None:
    rate, now, message = CommandRate(per_second, burst), 0.0, 0
    for gap in gaps:
        now += gap
        message += rate.take(now) == Verdict.ALLOWED
        assert message <= burst + now * per_second + 1e-6
