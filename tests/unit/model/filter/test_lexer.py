"""Tokens and their positions."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.model.filter.lexer import bad, tokens


def test_tokens_have_kind_value_and_position() -> None:
    found = [(token.kind, token.text, token.at) for token in tokens("a >= 'it''s' AND`b``c`.d<90s")]
    assert found == [
        ("word", "a", 0),
        ("mark", ">=", 2),
        ("string", "it's", 5),
        ("word", "AND", 13),
        ("quoted", "b`c", 16),
        ("mark", ".", 22),
        ("word", "d", 23),
        ("mark", "<", 24),
        ("number", "90", 25),
        ("word", "s", 27),
        ("end", "", 28),
    ]


def test_only_bare_words_and_marks_are_keywords() -> None:
    assert [token.word for token in tokens("AND 'and' `and` ( 1")] == ["and", "", "", "(", "", ""]


@given(st.text(max_size=60))
def test_only_space_lies_between_tokens(text: str) -> None:
    with contextlib.suppress(BadQuery):
        at = 0
        for token in tokens(text):
            assert not text[at : token.at].strip()
            at = token.end
        assert at == len(text)


@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_error_shows_the_character_in_a_long_filter(before: int, after: int) -> None:
    error = bad("a" * before + "!" + "b" * after, before, "why")
    assert error.message.startswith(f"why at character {before + 1} of the filter ")
    assert "!" in error.message
    assert len(error.message) < 220
