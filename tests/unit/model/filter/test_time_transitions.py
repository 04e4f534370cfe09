"""When the clock alone changes the result of a filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_filters import NOW, fields, rows, terms, untimed

from distributary.model.filter import RowView, compiled, next_transition, normalize, parse, timed
from distributary.model.filter.syntax_tree import Term
from distributary.model.filter.time_transitions import anchors
from distributary.reducers.row_json import Fields


@pytest.mark.parametrize(
    ("where", "value", "after", "wanted"),
    [
        ("t > now()", 1_000, 0, 1_000),
        ("t >= now()", 1_000, 0, 1_000),
        ("t >= now()", 1_000, 1_000, 1_001),
        ("t < now()", 1_000, 1_000, 1_001),
        ("t < now()", 1_000, 1_001, None),
        ("t > now() - 1s", 1_000, 5, 2_000),
        ("t > now() + 1s", 5_000, 5, 4_000),
        ("t = now()", 1_000, 0, 1_000),
        ("t = now()", 1_000, 1_000, 1_001),
        ("t <= now()", 1_000.5, 0, 1_001),
        ("t <= now()", "1970-01-01T00:00:02Z", 0, 2_000),
        ("t <= now()", "soon", 0, None),
        ("t <= now()", 1e300, 0, None),
        ("t <= timestamp '2026-01-01'", 5, 0, None),
        ("t > now() or u < now() - 1s", 1_000, 0, 1_000),
    ],
)
def test_next_transition_is_the_first_change(
    where: str, value: object, after: int, wanted: int | None
) -> None:
    assert next_transition(normalize(parse(where)), fields({"t": value}), after) == wanted


@given(terms, rows, st.integers(-3, 3))
def test_result_does_not_change_before_the_next_transition(term: Term, row: Fields, shift: int) -> None:
    form = normalize(term)
    test = compiled(form)
    at = NOW + shift
    flip = next_transition(form, row, at)
    assert flip is None or flip > at
    # A change is at some field's moment less an offset, or one later: all of those are within 200 s of NOW.
    last = at + 200_000 if flip is None else flip - 1
    times = {NOW + base + off + more for base in _BASES for off in _OFFSETS for more in (-1, 0, 1, 2)}
    before = test(RowView(row, at))
    for time_ms in sorted(times):
        if at <= time_ms <= last:
            assert test(RowView(row, time_ms)) is before


_BASES = (0, 1, 1_000, -1, -90_000)
_OFFSETS = (0, 1, -1, -1_000, 90_000)


@given(terms)
def test_only_now_makes_a_filter_timed(term: Term) -> None:
    if untimed(term):
        assert not timed(normalize(term))
    assert timed(normalize(term)) is bool(list(anchors(normalize(term))))


def test_filter_that_holds_at_any_time_is_not_timed() -> None:
    form = normalize(parse("t = now() or not t = now()"))
    assert not timed(form)
    assert form == normalize(
        parse("t = timestamp '2026-01-01T00:00:00Z' or t != timestamp '2026-01-01T00:00:00Z'")
    )


def test_anchors_are_listed_once() -> None:
    form = normalize(parse("t > now() - 1s and (t < now() + 1s or u = now() - 1s or t != now() - 1s)"))
    assert sorted(anchors(form)) == [(("t",), -1_000), (("t",), 1_000), (("u",), -1_000)]
