from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.permit.signed import claims

from distributary.errors import BadQuery, Forbidden, TokenRefused
from distributary.model.query import Query
from distributary.permit.grant import CLAIMS, OPEN, Grant, Limits, of_claims, of_token


def row(**fields: Any) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}


def test_a_token_is_read() -> None:
    body = claims(
        iat=10,
        exp=20.5,
        views=["odds", "bets-*"],
        rows={"odds": "country = 'DE'"},
        limits={"channels": 5, "queries": 10, "rate": 3},
        publish=["actions"],
        monitor=True,
        more="of somebody else",
    )
    assert of_token(body) == Grant(
        user="ann",
        expires_at=20_500,
        issued_at=10_000,
        views=("odds", "bets-*"),
        rows=(("odds", "country = 'DE'"),),
        limits=Limits(5, 10, 3),
        publish=("actions",),
        monitor=True,
    )


def test_claims_may_stand_in_one_of_their_own() -> None:
    body = {"sub": "ann", "views": ["*"], "admin": True, "ours": {"views": ["odds"]}}
    grant = of_token(body, claim="ours")
    assert (grant.views, grant.admin) == (("odds",), False)
    assert of_token({"sub": "ann"}, claim="ours").views == ()
    with pytest.raises(TokenRefused):
        of_token({"sub": "ann", "ours": "all"}, claim="ours")


def test_views_that_are_not_named_are_none_or_all_by_setting() -> None:
    assert of_token({"sub": "ann"}).views == ()
    assert of_token({"sub": "ann"}, default_views="all").views == ("*",)
    assert of_token({"sub": "ann", "views": []}, default_views="all").views == ()


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
        {"admin": "false"},
        {"admin": 1},
        {"monitor": []},
    ],
    ids=str,
)
def test_claims_that_cannot_be_read_refuse_the_token(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused) as caught:
        of_token(claims(**changes))
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
def test_a_filter_of_rows_that_is_no_filter_refuses_the_token(rows: Any) -> None:
    with pytest.raises(TokenRefused) as caught:
        of_token(claims(views=["odds"], rows=rows))
    assert caught.value.reason == "rows"


@pytest.mark.parametrize("rows", [7, ["country = 'DE'"], True, {"Odds!": "a = 1"}])
def test_rows_of_another_shape_refuse_the_token(rows: Any) -> None:
    with pytest.raises(TokenRefused):
        of_token(claims(rows=rows))


def test_views_by_name_and_pattern() -> None:
    grant = Grant("ann", views=("odds", "bets-*"))
    for name in ("odds", "bets-", "bets-live"):
        grant.view(name)
    for name in ("", "odds2", "bets", "Odds", "xodds", "*", "odds\n"):
        with pytest.raises(Forbidden, match="ann"):
            grant.view(name)


def test_feeds() -> None:
    Grant("ann", publish=("actions",)).feed("actions")
    of_claims("ann", {"publish": True}).feed("anything")
    for grant in (Grant("ann"), of_claims("ann", {"publish": False}), Grant("ann", publish=("a",))):
        with pytest.raises(Forbidden):
            grant.feed("actions")


def test_a_query_is_narrowed_by_every_filter_of_its_view() -> None:
    grant = Grant("ann", views=("*",), rows=(("*", "country = 'DE'"), ("odds", "sport = 'tennis'")))
    whole = grant.narrow(Query.parse("odds", None))
    assert whole == Query.parse("odds", "country = 'DE' and sport = 'tennis'")
    assert grant.narrow(Query.parse("bets", "id = 1")) == Query.parse("bets", "id = 1 and country = 'DE'")
    some = grant.narrow(Query.of_keys("odds", ["a", "b"]))
    assert some.keys == ("a", "b")
    assert some.matches("a", row(country="DE", sport="tennis"))
    assert not some.matches("a", row(country="FR", sport="tennis"))
    assert not some.matches("c", row(country="DE", sport="tennis"))


def test_a_view_that_is_not_allowed_is_not_narrowed() -> None:
    with pytest.raises(Forbidden):
        Grant("ann", views=("odds",)).narrow(Query.parse("bets", None))


def test_without_filters_the_query_is_the_same() -> None:
    query = Query.parse("odds", "a = 1")
    assert Grant("ann", views=("odds",)).narrow(query) is query
    assert OPEN.narrow(query) is query


VALUES = st.sampled_from(["DE", "FR", "IT"])
FIELDS = st.sampled_from(["country", "sport"])
EQUALS = st.builds(lambda field, value: f"{field} = '{value}'", FIELDS, VALUES)
FILTERS = st.recursive(
    EQUALS
    | st.sampled_from(["country in ('DE', 'FR')", "sport > 'E'", "country like 'D%'", "sport is null"]),
    lambda inner: (
        st.builds(lambda a, b, word: f"({a} {word} {b})", inner, inner, st.sampled_from(["and", "or"]))
        | inner.map(lambda a: f"not ({a})")
    ),
    max_leaves=4,
)


@given(
    FILTERS, FILTERS | st.none(), st.fixed_dictionaries({"country": VALUES, "sport": VALUES}), st.booleans()
)
def test_no_row_beyond_the_filter_is_ever_asked_for(
    rows: str, where: str | None, fields: dict[str, str], keyed: bool
) -> None:
    asked = Query.of_keys("odds", ["k"]) if keyed else Query.parse("odds", where)
    grant = Grant("ann", views=("odds",), rows=(("*", rows),))
    try:
        narrow = grant.narrow(asked)
    except BadQuery:
        assume(False)
    allowed = Query.parse("odds", rows)
    both = asked.matches("k", row(**fields)) and allowed.matches("k", row(**fields))
    assert narrow.matches("k", row(**fields)) == both
    assert grant.covers(narrow)
    assert grant.narrow(narrow).id == narrow.id


def test_a_query_of_somebody_else_is_covered_only_with_the_same_filter() -> None:
    german = Grant("ann", views=("odds",), rows=(("*", "country = 'DE'"),))
    french = Grant("bob", views=("odds",), rows=(("*", "country = 'FR'"),))
    made = german.narrow(Query.parse("odds", "sport = 'tennis'"))
    assert german.covers(made)
    assert not french.covers(made)
    assert not german.covers(Query.parse("odds", None))
    assert not german.covers(Query.of_keys("odds", ["a"]))
    assert Grant("cid", views=("odds",)).covers(made)
    assert not Grant("cid", views=("bets",)).covers(made)


@pytest.mark.parametrize(
    ("issued", "before", "ended"),
    [(None, None, False), (None, 1, True), (1000, None, False), (1000, 1000, False), (1000, 1001, True)],
)
def test_revoking_ends_what_was_issued_before(issued: int | None, before: int | None, ended: bool) -> None:
    assert Grant("ann", issued_at=issued).revoked(before) == ended
    assert not Grant("key:a", issued_at=issued, revocable=False).revoked(before)


def test_expiry() -> None:
    assert not Grant("ann").expired(1 << 60)
    grant = Grant("ann", expires_at=1000)
    assert [grant.expired(now) for now in (999, 1000)] == [False, True]
    assert [grant.expired(now, leeway=2) for now in (2999, 3000)] == [False, True]


patterns = st.text("ab-*", min_size=1, max_size=6)


@given(st.text("ab-", min_size=1, max_size=6), st.lists(patterns, max_size=3))
def test_a_view_is_seen_when_one_pattern_fits(name: str, allowed: list[str]) -> None:
    grant = of_claims("ann", {"views": allowed})
    assert grant.sees(name) == any(fnmatchcase(name, pattern) for pattern in allowed)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(CLAIMS), json_values))
def test_any_claims_give_a_grant_or_a_refusal(body: dict[str, Any]) -> None:
    try:
        grant = of_claims("ann", body)
    except TokenRefused:
        return
    assert grant.admin is (body.get("admin") is True)
    if body.get("rows") is not None:
        assert len(grant.rows) == (1 if isinstance(body["rows"], str) else len(body["rows"]))
