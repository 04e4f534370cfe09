from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.signed_tokens import claims

from distributary.auth import Grant, Limits, Operator
from distributary.auth.claims import CLAIMS, PATTERNS, grant_of_claims, grant_of_token
from distributary.errors import TokenRefused
from distributary.model.field_mask import parse_field_mask


def test_token_is_read() -> None:
    body = claims(
        iat=10,
        exp=20.5,
        views=["odds", "bets-*"],
        rows={"odds": "country = 'DE'", "bets-*": True},
        columns={"*": True, "odds": ["price", "score.home"]},
        limits={"channels": 5, "queries": 10, "rate": 3},
        publish=["actions"],
        produce=["bets.*"],
        consume=["Bets.v1"],
        groups=["ann [1]"],
        subjects="bets.*-value",
        register=True,
        define=["ann-*"],
        operator="operate",
        jti="4f1c",
        more="of somebody else",
    )
    assert grant_of_token(body) == Grant(
        user="ann",
        expires_at=20_500,
        issued_at=10_000,
        id="4f1c",
        views=("odds", "bets-*"),
        rows=(("odds", "country = 'DE'"),),
        columns=(("odds", parse_field_mask("price,score.home")),),
        limits=Limits(5, 10, 3),
        publish=("actions",),
        produce=("bets.*",),
        consume=("Bets.v1",),
        groups=("ann [[]1]",),
        subjects=("bets.*-value",),
        register=("*",),
        define=("ann-*",),
        operator=Operator.OPERATE,
    )


def test_claims_may_be_nested_in_one_claim() -> None:
    body = {"sub": "ann", "views": ["*"], "operator": "admin", "ours": {"views": ["odds"]}}
    grant = grant_of_token(body, claim="ours")
    assert (grant.views, grant.operator) == (("odds",), Operator.NONE)
    assert grant_of_token({"sub": "ann"}, claim="ours").views == ()
    with pytest.raises(TokenRefused):
        grant_of_token({"sub": "ann", "ours": "all"}, claim="ours")


def test_views_that_are_not_named_are_none_or_all_by_setting() -> None:
    assert grant_of_token({"sub": "ann"}).views == ()
    assert grant_of_token({"sub": "ann"}, default_views="all").views == ("*",)
    assert grant_of_token({"sub": "ann", "views": []}, default_views="all").views == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a" * 257},
        {"sub": "two\nlines"},
        {"views": 7},
        {"views": {"odds": True}},
        {"views": ["odds", 7]},
        {"views": [""]},
        {"views": ["[a-z]*"]},
        {"views": ["odds?"]},
        {"views": ["a"] * 1001},
        {"publish": 7},
        {"publish": [True]},
        {"limits": 7},
        {"limits": {"chanels": 7}},
        {"limits": {"channels": -1}},
        {"limits": {"channels": True}},
        {"limits": {"channels": 1.5}},
        {"operator": "root"},
        {"operator": True},
        {"operator": []},
        {"columns": 7},
        {"columns": []},
        {"columns": {"odds": []}},
        {"columns": {"odds": [7]}},
        {"columns": {"odds": "a,,b"}},
        {"columns": {"other": ["a"]}},
        {"produce": ["two words"]},
        {"consume": ["a/b"]},
        {"groups": ["two\nlines"]},
        {"groups": [""]},
        {"subjects": ["a" * 256]},
        {"jti": 7},
    ],
    ids=str,
)
def test_token_with_invalid_claims_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused) as caught:
        grant_of_token(claims(**changes))
    assert caught.value.reason == "claims"


@pytest.mark.parametrize(
    "rows",
    [
        "",
        "   ",
        "country =",
        "country = 'DE' or",
        "1",
        "country = 'DE' -- and so on",
        {"odds": ""},
        {"odds": None},
        {"odds": 7},
        {"odds": "a ="},
        {"odds": "a = 1", "bets": "b = 1"},
        {"ods": "country = 'DE'"},
        {"x-*": "country = 'DE'"},
    ],
    ids=str,
)
def test_token_with_an_invalid_row_filter_is_refused(rows: Any) -> None:
    with pytest.raises(TokenRefused) as caught:
        grant_of_token(claims(views=["odds"], rows=rows))
    assert caught.value.reason == "rows"


@pytest.mark.parametrize("rows", [7, ["country = 'DE'"], True, {"Odds!": "a = 1"}])
def test_token_with_malformed_rows_is_refused(rows: Any) -> None:
    with pytest.raises(TokenRefused):
        grant_of_token(claims(rows=rows))


patterns = st.text("ab-*", min_size=1, max_size=6)


@given(st.text("ab-", min_size=1, max_size=6), st.lists(patterns, max_size=3))
def test_view_is_seen_when_one_pattern_fits(name: str, allowed: list[str]) -> None:
    grant = grant_of_claims("ann", {"views": allowed})
    assert grant.may_read(name) == any(fnmatchcase(name, pattern) for pattern in allowed)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(CLAIMS), json_values))
def test_any_claims_give_a_grant_or_a_refusal(body: dict[str, Any]) -> None:
    try:
        grant = grant_of_claims("ann", body)
    except TokenRefused:
        return
    assert bool(grant.operator) == bool(body.get("operator"))
    for name in PATTERNS:
        assert bool(getattr(grant, name)) == (body.get(name) not in (None, False, []))
    if body.get("rows") is not None:
        filters = {"*": body["rows"]} if isinstance(body["rows"], str) else body["rows"]
        assert len(grant.rows) == sum(one is not True for one in filters.values())


@pytest.mark.parametrize("name", ["rows", "columns"])
def test_token_whose_rows_or_columns_lack_a_view_is_refused(name: str) -> None:
    """Otherwise adding a view to a token would allow all of its rows."""
    given: Any = {"rows": "a = 1", "columns": ["a"]}[name]
    for views in (["odds", "bets"], ["*"], ["odds", "odds-*"]):
        with pytest.raises(TokenRefused, match="lacks the view"):
            grant_of_token(claims(views=views, **{name: {"odds": given}}))
        grant_of_token(claims(views=views, **{name: {"odds": given, "*": True}}))
    grant_of_token(claims(views=["odds-a", "odds-b"], **{name: {"odds-*": given}}))


@given(st.text(min_size=1, max_size=8), st.text(max_size=8))
def test_only_an_asterisk_stands_for_anything_in_a_name(pattern: str, name: str) -> None:
    try:
        grant = grant_of_claims("ann", {"groups": [pattern]})
    except TokenRefused:
        return
    parts = pattern.split("*")
    if len(parts) == 1:
        assert fnmatchcase(name, grant.groups[0]) == (name == pattern)
    else:
        assert not fnmatchcase(name, grant.groups[0]) or (
            name.startswith(parts[0]) and name.endswith(parts[-1])
        )
