"""How many workers there should be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.workers.autoscaler import Scaler, Span, parse_span

spans = st.builds(
    lambda least, more: Span(least, 0 if more is None else max(1, least + more)),
    st.integers(0, 12),
    st.none() | st.integers(0, 12),
)


@given(
    spans,
    st.lists(
        st.tuples(st.floats(0, 60), st.none() | st.integers(0, 50_000), st.integers(1, 12)), max_size=40
    ),
)
def test_never_more_than_partitions_nor_out_of_the_span(
    span: Span, steps: list[tuple[float, int | None, int]]
) -> None:
    scaler, now, running = Scaler(100, 30.0), 0.0, 0
    for passed, lag, partitions in steps:
        now += passed
        running = scaler.decide(now, lag, running, partitions, span)
        assert running <= partitions
        assert running >= min(span.least, partitions, span.most or partitions)
        assert not span.most or running <= span.most


@given(spans, st.integers(0, 5_000), st.integers(0, 12), st.integers(1, 12))
def test_while_nothing_changes_it_goes_one_way_and_stays(
    span: Span, lag: int, running: int, partitions: int
) -> None:
    scaler, seen = Scaler(100, 3.0), [running]
    for now in range(80):
        seen.append(scaler.decide(float(now), lag, seen[-1], partitions, span))
    steps = [after - before for before, after in pairwise(seen[1:]) if after != before]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps)
    assert seen[-1] == seen[-20], "it comes to rest"


def test_more_at_once_and_fewer_one_by_one_after_a_calm() -> None:
    scaler, span = Scaler(1_000, 30.0), Span(1, 0)
    assert scaler.decide(0.0, 5_500, 1, 8, span) == 6
    assert scaler.decide(1.0, 0, 6, 8, span) == 6
    assert scaler.decide(30.9, 0, 6, 8, span) == 6
    assert scaler.decide(31.0, 0, 6, 8, span) == 5
    assert scaler.decide(32.0, 0, 5, 8, span) == 5
    assert scaler.decide(61.0, 0, 5, 8, span) == 4


def test_a_lag_that_comes_back_begins_the_calm_anew() -> None:
    scaler, span = Scaler(1_000, 30.0), Span(1, 0)
    assert scaler.decide(0.0, 100, 3, 8, span) == 3
    assert scaler.decide(29.0, 1_400, 3, 8, span) == 3
    assert scaler.decide(31.0, 100, 3, 8, span) == 3
    assert scaler.decide(60.9, 100, 3, 8, span) == 3
    assert scaler.decide(61.0, 100, 3, 8, span) == 2


def test_an_unknown_lag_changes_nothing() -> None:
    scaler = Scaler(1_000, 0.0)
    assert [scaler.decide(float(now), None, 3, 8, Span(1, 0)) for now in range(3)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("text", "span"), [("3", Span(3, 3)), ("1..4", Span(1, 4)), ("2..", Span(2, 0)), ("0", Span(0, 0))]
)
def test_a_span_is_read(text: str, span: Span) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["", "x", "4..1", "-1", "1..0", "1..x", ".."])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="is no number of workers"):
        parse_span(text)
