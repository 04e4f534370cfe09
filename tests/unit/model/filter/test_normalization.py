"""The normal form: equality, contradictions, tautologies, serialization."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from tests.support.filter_reference import truth
from tests.support.sample_filters import NOW, rows, terms

from distributary.errors import BadQuery
from distributary.model.filter import ALWAYS, NEVER, RowView, compiled, normalize, parse
from distributary.model.filter.normal_form import AllOf, AnyOf, Filter, load, text
from distributary.model.filter.normalization import all_of, any_of
from distributary.model.filter.syntax_tree import And, Not, Or, Term
from distributary.reducers.row_json import Fields


def of(where: str) -> Filter:
    return normalize(parse(where))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1 and b = 'x'", " b='x'  AND a = 1.0 "),
        ("a = 1 or b = 2", "b = 2 or a = 1 or b = 2.00"),
        ("a = 150", "a == 1.5e2"),
        ("a in (2)", "a = 2"),
        ("a in (2, 1, 2.0)", "a = 1 or a = 2"),
        ("a not in (1, 2)", "a != 2 and a <> 1"),
        ("a between 1 and 5", "a >= 1 and a <= 5"),
        ("not (a between 1 and 5)", "a < 1 or a > 5"),
        ("not (a = 1 and b < 2)", "b >= 2 or a != 1"),
        ("not not a = 1", "a = 1"),
        ("not a is null", "a is not null"),
        ("5 > a", "a < 5"),
        ("(a = 1 and b = 1) and c = 1", "a = 1 and (b = 1 and c = 1)"),
        ("a > 1 and a > 3 and a >= 3", "a > 3"),
        ("a >= 1 and a != 1", "a > 1"),
        ("a >= 1 and a <= 1", "a = 1"),
        ("a > 1 and a != 0", "a > 1"),
        ("a in (1, 2, 3) and a > 1", "a in (3, 2)"),
        ("a in ('xy', 'zy') and a like 'x%'", "a = 'xy'"),
        ("a != true", "a = false"),
        ("a not in (true)", "not a = true"),
        ("a = 1 and a is not null", "a = 1"),
        ("a = 1 or a is not null", "a != null"),
        ("a like 'x%%'", "a like 'x%'"),
        ("a like 'x'", "a = 'x'"),
        ("a like '!%' escape '!'", "a = '%'"),
        ("a not like 'x'", "a != 'x'"),
        ("a != 1 or a = 1", "a != 2 or a != 3"),
        ("t > timestamp '2026-01-01T01:00:00+01:00'", "t > timestamp '2026-01-01'"),
        ("t > now() - 90s", "t > now() - interval '1 minute 30 seconds'"),
        ("t > now() - 90s and t > now() - 1m", "t > now() - 1m"),
        ("`a` = 1", "a = 1"),
        ("a = 1 and (b = 1 or b = 2)", "b in (1, 2) and a = 1"),
    ],
)
def test_equivalent_filters_have_one_normal_form(one: str, other: str) -> None:
    assert of(one) == of(other)
    assert text(of(one)) == text(of(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "a = '1'"),
        ("a = true", "a = 'true'"),
        ("a = 1", "a = true"),
        ("a.b = 1", "`a.b` = 1"),
        ("t = 5", "t = timestamp '1970-01-01' + 5ms"),
        ("t = now() + 5ms", "t = timestamp '1970-01-01' + 5ms"),
        ("a > 1", "a >= 1"),
        ("a != 1", "a is null or a != 1"),
    ],
)
def test_different_filters_have_different_normal_forms(one: str, other: str) -> None:
    assert of(one) != of(other)
    assert text(of(one)) != text(of(other))


@pytest.mark.parametrize(
    "where",
    [
        "a = 1 and a = 2",
        "a > 2 and a < 2",
        "a between 3 and 1",
        "a = 1 and a is null",
        "a = 1 and a = 'x'",
        "a is null and a is not null",
        "a = 1 and (b = 2 and b = 3)",
        "a not like '%'",
        "a = true and a != true",
        "a like 'x%' and a = 'y'",
        "a > 1 and a > 'x'",
        "a >= 1 and a <= 1 and a != 1",
        "a = true and a > now()",
    ],
)
def test_filter_on_impossible_range_matches_no_row(where: str) -> None:
    assert of(where) == NEVER


def test_tautology_matches_every_row() -> None:
    assert of("a is null or a is not null or b = 1") == ALWAYS
    # Not these: they are unknown where the field is null.
    assert of("a = 1 or a != 1") not in (ALWAYS, NEVER)
    assert of("a like '%'") not in (ALWAYS, NEVER)


@given(terms, rows)
def test_normal_form_agrees_with_the_reference(term: Term, row: Fields) -> None:
    assert compiled(normalize(term))(RowView(row, NOW)) is (truth(term, row, NOW) is True)
    assert compiled(normalize(Not(term)))(RowView(row, NOW)) is (truth(term, row, NOW) is False)


@given(terms)
def test_serialized_normal_form_is_loaded_back(term: Term) -> None:
    form = normalize(term)
    assert load(json.loads(text(form))) == form
    assert text(load(json.loads(text(form)))) == text(form)


@given(terms, terms)
def test_normal_forms_are_equal_when_their_text_is(one: Term, other: Term) -> None:
    assert (normalize(one) == normalize(other)) == (text(normalize(one)) == text(normalize(other)))


@given(terms, terms, terms)
def test_normal_form_ignores_order_nesting_and_repeats(a: Term, b: Term, c: Term) -> None:
    for join in (And, Or):
        plain = normalize(join((a, b, c)))
        assert normalize(join((c, b, a, b))) == plain
        assert normalize(join((join((a, b)), c))) == plain


@given(terms)
def test_normalization_is_idempotent(term: Term) -> None:
    form = normalize(term)
    assert all_of([form]) == any_of([form]) == form
    if isinstance(form, AllOf):
        assert all_of(form.terms) == form
    if isinstance(form, AnyOf):
        assert any_of(form.terms) == form


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        ["xor"],
        ["in"],
        ["in", "a"],
        ["in", "a", "color", "1"],
        ["in", "a", "number", "x"],
        ["range", "a", "text"],
        5,
        ["and", 1],
        ["in", [1], "number", "1"],
        ["in", "a", "number", "1e99999999999999999999"],
        None,
    ],
)
def test_load_rejects_what_is_not_a_normal_form(body: object) -> None:
    with pytest.raises(BadQuery, match="normal form"):
        load(body)
