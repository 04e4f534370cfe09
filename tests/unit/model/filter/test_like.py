"""Patterns: what they match, and that none of them is slow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import LIMIT
from tests.support.filter_reference import truth
from tests.support.sample_filters import fields

from distributary.model.filter.like import BadPattern, canonical_pattern, matcher
from distributary.model.filter.syntax_tree import Like

patterns = st.text("ab%_!\n.é", max_size=8)
texts = st.text("ab%_!\n.é", max_size=10)


@given(patterns, texts)
def test_matcher_agrees_with_the_reference(pattern: str, text: str) -> None:
    found = matcher(canonical_pattern(pattern, None)[0])(text)
    assert found == truth(Like(("a",), pattern), fields({"a": text}))


@given(st.lists(st.sampled_from(["a", "!%", "!_", "!!", "%", "_"]), max_size=6).map("".join), texts)
def test_matcher_with_escapes_agrees_with_the_reference(pattern: str, text: str) -> None:
    canonical, plain = canonical_pattern(pattern, "!")
    assert matcher(canonical)(text) == truth(Like(("a",), pattern, "!"), fields({"a": text}))
    if plain is not None:
        assert matcher(canonical)(text) == (text == plain)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("x%", "xyz", True),
        ("%z", "xyz", True),
        ("%y%", "xyz", True),
        ("x_z", "xyz", True),
        ("x_z", "xyyz", False),
        ("", "", True),
        ("", "x", False),
        ("%", "", True),
        ("_%", "", False),
        ("ab%ba", "aba", False),
        ("ab%ba", "abba", True),
        ("X%", "xyz", False),
        ("a.c", "abc", False),
        ("_", "\n", True),
        ("_", "\U0001f600", True),
    ],
)
def test_matcher_matches_example_strings(pattern: str, text: str, found: bool) -> None:
    assert matcher(canonical_pattern(pattern, None)[0])(text) is found


@given(patterns)
def test_canonical_pattern_is_idempotent(pattern: str) -> None:
    once, plain = canonical_pattern(pattern, None)
    assert canonical_pattern(once, "\\") == (once, plain)


@pytest.mark.parametrize(("one", "other"), [("%%", "%"), ("%_", "_%"), ("a%_%b", "a_%b"), ("_%_", "__%")])
def test_equivalent_patterns_have_one_canonical_form(one: str, other: str) -> None:
    assert canonical_pattern(one, None) == canonical_pattern(other, None)


@pytest.mark.parametrize(("pattern", "at"), [("a!", 1), ("!a", 0), ("%!!!x", 3)])
def test_escape_must_precede_a_wildcard_or_itself(pattern: str, at: int) -> None:
    with pytest.raises(BadPattern) as error:
        canonical_pattern(pattern, "!")
    assert error.value.at == at


@pytest.mark.parametrize(
    "pattern", ["%a" * 500, "%" + "a" * 500 + "b%", "%" + "a_" * 400 + "b", "a%" * 400 + "_b"]
)
def test_matcher_is_fast_on_any_pattern(pattern: str) -> None:
    test = matcher(canonical_pattern(pattern, None)[0])
    began = time.thread_time()
    test("a" * 20_000 + "c")
    assert time.thread_time() - began < 1.0 * LIMIT
