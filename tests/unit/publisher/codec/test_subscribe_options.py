"""The options of a subscribe."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.publisher.codec.subscribe_options import TICK, Conflation, read_conflation


@pytest.mark.parametrize(
    ("options", "conflation"),
    [
        ({}, None),
        ({"slow": "close"}, None),
        ({"slow": "conflate"}, Conflation()),
        ({"conflate": "2s"}, Conflation(2.0)),
        ({"conflate": 0.5}, Conflation(0.5)),
        ({"conflate": "500 ms", "slow": "conflate"}, Conflation(0.5)),
        ({"max_rate": "10"}, Conflation(max_rate=10.0)),
        ({"max_rate": 0.5, "max_bytes": "64k"}, Conflation(max_rate=0.5, max_bytes=65536)),
        ({"conflate": None, "max_bytes": 1000}, Conflation(max_bytes=1000)),
    ],
)
def test_options_become_conflation(options: dict[str, Any], conflation: Conflation | None) -> None:
    assert read_conflation(options) == conflation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conflate": "soon"}, "conflate='soon': expected a duration"),
        ({"conflate": 0}, "out of range"),
        ({"conflate": "2 hours"}, "out of range"),
        ({"conflate": True}, "expected a duration"),
        ({"conflate": float("nan")}, "expected a duration"),
        ({"max_rate": 0}, "not a rate"),
        ({"max_rate": "-1"}, "not a rate"),
        ({"max_rate": "nan"}, "not a rate"),
        ({"max_rate": True}, "not a rate"),
        ({"max_rate": 10**400}, "not a rate"),
        ({"max_bytes": 0}, "max_bytes is 0"),
        ({"max_bytes": "2mb"}, "is ambiguous"),
        ({"max_bytes": -1}, "0 or more"),
        ({"slow": "wait"}, "unknown slow='wait'"),
        ({"conflate": 1, "slow": "close"}, "cannot be combined with"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadQuery, match=message):
        read_conflation(options)


@given(st.floats(0.01, 5), st.floats(0.5, 1000), st.integers(10, 10**6), st.lists(st.integers(1, 50)))
def test_rate_is_not_exceeded(interval: float, rate: float, size: int, sizes: list[int]) -> None:
    conflation = Conflation(interval, rate, size)
    most, room = conflation.portion()
    count = min(most, len(sizes)) or 1
    waited = conflation.wait(count, sum(sizes[:count]))
    assert waited >= interval
    assert count / waited <= rate * 1.000001
    assert sum(sizes[:count]) / waited <= size * 1.000001
    assert most <= max(1, rate * max(interval, TICK))
    assert room <= size * max(interval, TICK)
