"""Queries: equality, ids, and which rows match."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filter_reference import truth
from tests.support.sample_filters import NOW, fields, rows, terms, untimed, write

from distributary.errors import BadQuery
from distributary.model.filter import NEVER
from distributary.model.filter.syntax_tree import Term
from distributary.model.query import Query
from distributary.reducers.row_json import Fields

untimed_terms = terms.filter(untimed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 and b = 'x'", " b='x'  AND a = 1.0 "),
        ("a in (2, 1)", "a = 1 or a = 2"),
        ("`odd name` = true", "`odd name` = TRUE"),
        ("", "   "),
        ("a is null or a is not null", ""),
    ],
)
def test_equal_filters_are_one_query(one: str, other: str) -> None:
    assert Query.parse("v", one) == Query.parse("v", other)
    assert Query.parse("v", one).id == Query.parse("v", other).id
    assert Query.parse("v", one).channel == Query.parse("v", other).channel


def test_query_id_has_128_bits() -> None:
    assert re.fullmatch("[0-9a-f]{32}", Query.parse("v", "a = 1").id)


def test_queries_of_different_views_differ() -> None:
    assert Query.parse("v", "a = 1").id != Query.parse("w", "a = 1").id


def test_keys_are_sorted_without_duplicates() -> None:
    assert Query.of_keys("v", ["b", "a", "b"]) == Query.of_keys("v", ["a", "b"])


def test_keys_must_be_strings() -> None:
    for keys in ([], ["a", "\ud800"], [5], [str(n) for n in range(10_001)]):
        with pytest.raises(BadQuery):
            Query.of_keys("v", keys)  # type: ignore[arg-type]


def test_query_for_the_whole_view_has_the_shortest_text() -> None:
    assert Query("v").text == "{}"
    assert Query.parse("v", None) == Query.load("v", "{}") == Query("v")


@given(st.none() | st.lists(st.text(), min_size=1, max_size=5), st.none() | untimed_terms)
def test_normal_form_is_loaded_back(keys: list[str] | None, term: Term | None) -> None:
    query = Query("v") if keys is None else Query.of_keys("v", keys)
    if term is not None:
        query = query.narrowed(write(term))
    again = Query.load("v", query.text)
    assert again == query
    assert (again.text, again.id) == (query.text, query.id)


@pytest.mark.parametrize("text", ['{"equals":[["a","n1"]]}', '{"where":["nor"]}', '{"where":[]}'])
def test_load_rejects_other_forms(text: str) -> None:
    with pytest.raises(BadQuery, match="normal form"):
        Query.load("v", text)


@given(untimed_terms, untimed_terms, rows, st.sampled_from("kl"))
def test_narrowed_query_matches_both_filters(one: Term, other: Term, row: Fields, key: str) -> None:
    wanted = truth(one, row) is True and truth(other, row) is True
    assert Query.parse("v", write(one)).narrowed(write(other)).matches(key, row) is wanted
    by_key = Query.of_keys("v", ["k"]).narrowed(write(one)).narrowed(write(other))
    assert by_key.matches(key, row) is (wanted and key == "k")


def test_narrowing_by_an_empty_filter_changes_nothing() -> None:
    query = Query.parse("v", "a = 1")
    assert query.narrowed("") == query.narrowed("a = 1") == query.narrowed("a is not null") == query
    assert query.narrowed("a = 2").filter == NEVER
    assert not query.narrowed("a = 2").matches("k", fields({"a": 1}))


def test_filter_does_not_see_row_keys() -> None:
    assert not Query.parse("v", "key = 'k'").matches("k", fields({"a": 1}))


def test_missing_field_equals_only_null() -> None:
    row = fields({"a": None})
    assert Query.parse("v", "a = null").matches("k", row)
    assert Query.parse("v", "b = null").matches("k", row)
    assert not Query.parse("v", "b = 0").matches("k", row)
    assert not Query.parse("v", "a = ''").matches("k", row)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("a = 1.50 and b.c = 'x' and d > 1", [(("a",), "n1.5"), (("b", "c"), "sx")]),
        ("a = true", [(("a",), "true")]),
        ("a >= 1 and a <= 1", [(("a",), "n1")]),
        ("a = 1 or b = 2", []),
        ("a in (1, 2)", []),
        ("a = null", []),
        ("a = timestamp '2026-01-01'", []),
        ("", []),
    ],
)
def test_equality_lists_fields_with_one_value(where: str, wanted: list[tuple[tuple[str, ...], str]]) -> None:
    assert list(Query.parse("v", where).equality) == wanted


def test_filter_error_names_the_character() -> None:
    with pytest.raises(BadQuery, match="at character 5 "):
        Query.parse("v", "a = b")
    with pytest.raises(BadQuery, match="at character 5 "):
        Query("v").narrowed("a = b")


def test_timed_query_depends_on_the_time_of_evaluation() -> None:
    query = Query.parse("v", "t > now() - 1h")
    row = fields({"t": NOW})
    assert query.timed
    assert query.matches("k", row, NOW + 3_599_999)
    assert not query.matches("k", row, NOW + 3_600_000)
    assert Query.load("v", query.text) == query
    assert not Query.parse("v", "t > 5").timed
    assert not Query("v").timed


def test_view_with_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(BadQuery, match="invalid Unicode"):
        _ = Query.parse("\ud800", None).id
