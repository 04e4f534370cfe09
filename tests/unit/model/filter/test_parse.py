"""Parsing of filters: grammar, limits, and errors that name the character."""

from __future__ import annotations

import contextlib
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import LIMIT
from tests.support.sample_filters import NOW, terms, write

from distributary.errors import BadQuery
from distributary.model.filter.parse import MAX_DEPTH, MAX_IN, MAX_LIKE, MAX_TERMS, MAX_TEXT, parse
from distributary.model.filter.syntax_tree import (
    And,
    Between,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Now,
    Or,
    Term,
    Timestamp,
)

A, B, C = (Compare((name,), "=", 1) for name in "abc")


@given(terms)
def test_written_tree_is_parsed_back(term: Term) -> None:
    assert parse(write(term)) == term


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("a = 1 and b = 1 or c = 1", Or((And((A, B)), C))),
        ("a = 1 AND (b = 1 Or c = 1)", And((A, Or((B, C))))),
        ("not a = 1 and b = 1", And((Not(A), B))),
        ("not not a = 1", Not(Not(A))),
        ("a == 1", A),
        ("1 = a", A),
        ("1.5 <= a", Compare(("a",), ">=", Decimal("1.5"))),
        ("a <> 'it''s'", Compare(("a",), "!=", "it's")),
        ('a = "\\u00e9\\n\'"', Compare(("a",), "=", "é\n'")),
        ("a=-5", Compare(("a",), "=", -5)),
        ("a = TRUE", Compare(("a",), "=", True)),
        ("a = null", IsNull(("a",))),
        ("a != null", Not(IsNull(("a",)))),
        ("null = a", IsNull(("a",))),
        ("a is null", IsNull(("a",))),
        ("a is not null", Not(IsNull(("a",)))),
        ("a in (1, 2,3)", In(("a",), (1, 2, 3))),
        ("a not in ('x')", Not(In(("a",), ("x",)))),
        ("a between -1 and 1.5 and b = 1", And((Between(("a",), -1, Decimal("1.5")), B))),
        ("a not between 1 and 2", Not(Between(("a",), 1, 2))),
        ("a like 'x!%%' escape '!'", Like(("a",), "x!%%", "!")),
        ("a not like '_'", Not(Like(("a",), "_"))),
        ("score.home > 1", Compare(("score", "home"), ">", 1)),
        ("`odd name`.`with ``` < 1", Compare(("odd name", "with `"), "<", 1)),
        ("`a.b` = 1", Compare(("a.b",), "=", 1)),
        ("a.in = 1", Compare(("a", "in"), "=", 1)),
        ("größe = 1", Compare(("größe",), "=", 1)),
        ("timestamp = 1", Compare(("timestamp",), "=", 1)),
        ("now > 1 and interval = 1", And((Compare(("now",), ">", 1), Compare(("interval",), "=", 1)))),
    ],
)
def test_parse_accepts_every_form(text: str, term: Term) -> None:
    assert parse(text) == term


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("timestamp '2026-01-01T00:00:00Z'", Timestamp(NOW)),
        ("TIMESTAMP '2026-01-01' - 1d + 2h", Timestamp(NOW - 79_200_000)),
        ("now()", Now(0)),
        ("now() - 90s", Now(-90_000)),
        ("now()-90s", Now(-90_000)),
        ("now() + 1h", Now(3_600_000)),
        ("NOW ( ) + interval '2 hours'", Now(7_200_000)),
        ("now() - 1 day", Now(-86_400_000)),
    ],
)
def test_parse_accepts_times_and_offsets(text: str, value: Literal) -> None:
    assert parse(f"t < {text}") == Compare(("t",), "<", value)
    assert parse(f"{text} > t and a = 1") == And((Compare(("t",), "<", value), A))


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("a", 2, "expected a comparison"),
        ("a =", 4, "the filter ends"),
        ("a = 1 or", 9, "the filter ends"),
        ("= 1", 1, "expected the name of a field"),
        ("a = b", 5, "not the name of a field"),
        ("a = 'open", 5, "without a closing '"),
        ("a = 'it''s", 5, "without a closing '"),
        ('a = "open', 5, 'without a closing "'),
        ("`a = 1", 1, "without a closing `"),
        ("a = 1 b = 2", 7, "expected and, or, or the end"),
        ("(a = 1", 7, "expected and, or, or )"),
        ("a = 1)", 6, "found )"),
        ("a ? 1", 3, "unexpected '?'"),
        ("1 = 2", 5, "expected the name of a field"),
        ("a = 1 and and", 11, "expected the name of a field"),
        ("a = -'x'", 6, "expected a number"),
        ("a = 1e99999999999999999999", 5, "out of range"),
        ("a.", 3, "expected the name of a field"),
        ("a < true", 5, "have no order"),
        ("a >= null", 6, "null has no order"),
        ("a is 1", 6, "expected null or not null"),
        ("a not = 1", 7, "expected in, between or like"),
        ("a in 1", 6, "expected ("),
        ("a in ()", 7, "expected a string in quotes"),
        ("a in (1, 'x')", 10, "a string among values of another type"),
        ("a in (1, null)", 10, "null is not allowed here"),
        ("a in (1 2)", 9, "expected , or )"),
        ("price between 1 and 'a'", 21, "a string as the upper end of a range that begins with a number"),
        ("a between true and false", 11, "have no order"),
        ("a between 1", 12, "expected and"),
        ("a like 1", 8, "expected a string in quotes"),
        ("a like 'x' escape 'ab'", 19, "one character in quotes"),
        ("a like 'x' escape '%'", 19, "one character in quotes"),
        ("a like 'x!' escape '!'", 8, "character 2 of the pattern"),
        ("t > timestamp 'soon'", 15, "ISO 8601"),
        ("t > now() + 5", 13, "expected a duration"),
        ("t > now() + 5 weeks", 13, "expected a duration"),
        ("t > now() + 99d + 36500d", 19, "over 100 years"),
        ("t > now(", 9, "expected )"),
        ('a = "\\x"', 5, "invalid escape"),
        ('a = "\\ud800"', 5, "lone surrogate"),
        ("a = '\ud800'", 6, "lone surrogate"),
        (".".join("a" * 17) + " = 1", 33, "nested too deeply"),
    ],
)
def test_parse_error_names_the_character(text: str, position: int, message: str) -> None:
    with pytest.raises(BadQuery, match=f"at character {position} of the filter") as error:
        parse(text)
    assert message in error.value.message
    assert error.value.hint


def test_bare_field_error_suggests_a_comparison() -> None:
    with pytest.raises(BadQuery) as error:
        parse("score.live and a = 1")
    assert "live = true" in error.value.hint


def test_parse_rejects_now_where_it_is_not_supported() -> None:
    with pytest.raises(BadQuery, match=r"now\(\) \(which is not supported here\) at character 5 "):
        parse("t > now() - 1h", now=False)
    assert parse("now = 1", now=False) == Compare(("now",), "=", 1)


def test_parse_error_shows_part_of_a_long_filter() -> None:
    with pytest.raises(BadQuery, match="at character 8004 ") as error:
        parse("a = 1 or " * 889 + "a ? 1" + " or a = 1" * 500)
    assert len(error.value.message) < 300
    assert "a ? 1" in error.value.message


@pytest.mark.parametrize("join", [" and ", " or "])
def test_parse_limits_the_number_of_conditions(join: str) -> None:
    parse(join.join(["a=1"] * MAX_TERMS))
    with pytest.raises(BadQuery, match="too many conditions at character"):
        parse(join.join(["a=1"] * (MAX_TERMS + 1)))


@pytest.mark.parametrize(("left", "right"), [("(", ")"), ("not ", ""), ("not(", ")")])
def test_parse_limits_the_depth(left: str, right: str) -> None:
    depth = MAX_DEPTH // (2 if left == "not(" else 1)
    parse(left * depth + "a=1" + right * depth)
    with pytest.raises(BadQuery, match="nested too deeply at character"):
        parse(left * (depth + 1) + "a=1" + right * (depth + 1))
    with pytest.raises(BadQuery, match="nested too deeply at character"):
        parse(left * 1_000)
    with pytest.raises(BadQuery, match="too long"):
        parse(left * 1_000_000)


def test_parse_limits_the_length() -> None:
    values = ",".join(["1"] * MAX_IN)
    parse(f"a in ({values})")
    with pytest.raises(BadQuery, match="too many values at character"):
        parse(f"a in ({values},1)")
    parse(f"a like '{'x' * MAX_LIKE}'")
    with pytest.raises(BadQuery, match="a pattern of 1,001 characters at character 8"):
        parse(f"a like '{'x' * (MAX_LIKE + 1)}'")
    with pytest.raises(BadQuery, match="too long"):
        parse("a = '" + "x" * MAX_TEXT + "'")


@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(
            [
                "a",
                "b",
                "1",
                "'x'",
                "and",
                "or",
                "not",
                "(",
                ")",
                "in",
                ",",
                "like",
                "between",
                "is",
                "null",
                "=",
                "<",
                "now",
                "timestamp",
                "-",
                "+",
                ".",
                "`",
            ]
        ),
        max_size=15,
    ).map(" ".join)
)
def test_parse_raises_only_bad_query(text: str) -> None:
    with contextlib.suppress(BadQuery):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "'" * 16_383,
        "a like " + "'x'" * 5_000,
        "`" * 16_384,
        "a='" + "''" * 8_000,
        '"\\' * 8_000,
        "1" * 16_384,
        "a " * 8_000,
    ],
)
def test_parse_is_fast_on_any_string(text: str) -> None:
    began = time.thread_time()
    with contextlib.suppress(BadQuery):
        parse(text)
    assert time.thread_time() - began < 1.0 * LIMIT
