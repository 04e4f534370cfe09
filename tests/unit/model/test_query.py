"""Filters: what can be read, what is one query, and errors that point."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.model.query import Query, canonical, number


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 and b = 'x'", " b='x'  AND a = 1.0 "),
        ("a = 150", "a = 1.5e2"),
        ("`odd name` = true", "`odd name` = TRUE"),
        ("a = 'it''s'", 'a = "it\'s"'),
        ("", "   "),
    ],
)
def test_equal_filters_are_one_query(one: str, other: str) -> None:
    assert Query.parse("v", one) == Query.parse("v", other)
    assert Query.parse("v", one).id == Query.parse("v", other).id


def test_views_have_queries_of_their_own() -> None:
    assert Query.parse("v", "a = 1").id != Query.parse("w", "a = 1").id


def test_keys_are_a_set() -> None:
    assert Query.of_keys("v", ["b", "a", "b"]) == Query.of_keys("v", ["a", "b"])


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_the_normal_form_reads_back(keys: list[str]) -> None:
    query = Query.of_keys("v", keys)
    assert Query.load("v", query.text) == query
    filtered = Query("v", None, tuple(sorted({(k, "s" + k) for k in keys})))
    assert Query.load("v", filtered.text) == filtered


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a > 1", 3),
        ("a =", 4),
        ("a = 1 or b = 2", 7),
        ("= 1", 1),
        ("a = 1 and", 10),
        ("a = b", 5),
        ("a = 'open", 5),
        ("a = 1 and a = 2", 15),
    ],
)
def test_an_error_points_at_the_character(text: str, place: int) -> None:
    with pytest.raises(BadQuery, match=f"at character {place}"):
        Query.parse("v", text)


def test_a_filter_has_a_limit() -> None:
    with pytest.raises(BadQuery, match="too long"):
        Query.parse("v", "a = '" + "x" * 20_000 + "'")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadQuery):
        Query.parse("v", text)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_equal_numbers_have_equal_text(value: Decimal, zeros: int) -> None:
    text = number(format(value, "f"))
    assert number(str(value)) == text
    assert (
        number(
            format(value, "f")
            + ("0" * zeros if "." in format(value, "f") else "." + "0" * zeros if zeros else "")
        )
        == text
    )
    assert Decimal(text) == value


@given(st.none() | st.booleans() | st.integers() | st.text())
def test_a_scalar_equals_itself_and_nothing_else(value: object) -> None:
    text = json.dumps(value).encode()
    form = canonical(text)
    assert form == canonical(json.dumps(value, ensure_ascii=False).encode())
    assert canonical(b'"' + b"z" * 50 + b'"') != form


def test_a_missing_field_equals_null_only() -> None:
    row: dict[str, msgspec.Raw] = {"a": msgspec.Raw(b"null")}
    assert Query.parse("v", "a = null").matches("k", row)
    assert Query.parse("v", "b = null").matches("k", row)
    assert not Query.parse("v", "b = 0").matches("k", row)
    assert not Query.parse("v", "a = ''").matches("k", row)
