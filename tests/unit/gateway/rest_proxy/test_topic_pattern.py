from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import LIMIT

from distributary.errors import GatewayError
from distributary.gateway.rest_proxy.consumer_routes import topic_pattern


@pytest.mark.parametrize(
    ("pattern", "topic", "good"),
    [
        ("odds", "odds", True),
        ("odds", "odds2", False),
        ("odds-.*", "odds-live", True),
        (r"odds-[a-z]\d", "odds-x1", True),
        ("(odds|bets)", "bets", True),
        ("od", "odds", False),
    ],
)
def test_pattern_matches_whole_names(pattern: str, topic: str, good: bool) -> None:
    assert (topic_pattern(pattern).fullmatch(topic) is not None) == good


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a" * 30 + "?" * 1 + "(.*a){12}b"])
def test_pattern_that_backtracks_elsewhere_takes_no_time(pattern: str) -> None:
    found = topic_pattern(pattern)
    began = time.perf_counter()
    assert found.fullmatch("a" * 249) is None
    assert time.perf_counter() - began < 0.5 * LIMIT


@pytest.mark.parametrize("pattern", ["(a", "[", "a{2,1}", r"(a)\1", "(?=a)a", "a{1001}", "\ud800"])
def test_pattern_that_is_not_served_is_refused(pattern: str) -> None:
    with pytest.raises(GatewayError, match="topic_pattern is no regular expression") as caught:
        topic_pattern(pattern)
    assert caught.value.number == 422


@given(st.text(st.characters()))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    with contextlib.suppress(GatewayError):
        topic_pattern(text).fullmatch("odds")
