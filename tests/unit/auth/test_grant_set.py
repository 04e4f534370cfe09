from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from distributary.auth import EVERYTHING, STACK, Grant, GrantSet, owned_id
from distributary.errors import BadQuery, Forbidden
from distributary.model.field_mask import parse_field_mask
from distributary.model.order import order_of
from distributary.model.position import Position
from distributary.model.query import Query


def row(**fields: Any) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}


USERS = st.text(min_size=1, max_size=20)


def grant(rows: str = "", user: str = "ann", views: tuple[str, ...] = ("odds",)) -> Grant:
    return Grant(user, views=views, rows=(("*", rows),) if rows else ())


def test_only_what_all_allow_is_allowed() -> None:
    both = GrantSet((grant("country = 'DE'"), grant("price > 1")))
    asked = Query.parse("odds", "sport = 'tennis'")
    served = Query.parse("odds", "sport = 'tennis' and country = 'DE' and price > 1")
    assert both.narrow(asked) == served
    assert both.covers(served)
    assert not both.covers(Query.parse("odds", "sport = 'tennis' and country = 'DE'"))
    for held in (GrantSet((grant(), grant(views=("bets",)))), GrantSet((grant(views=("bets",)), grant()))):
        with pytest.raises(Forbidden):
            held.require_view("odds")
        with pytest.raises(Forbidden):
            held.narrow(asked)
        assert not held.covers(asked)


def test_sets_with_the_same_claims_allow_the_same_rows() -> None:
    held = GrantSet((grant("a = 1"),))
    assert held.allows_same_rows(GrantSet((replace(held.grants[0], expires_at=9),)))
    for other in (
        GrantSet((grant("a = 2"),)),
        GrantSet((grant("a = 1", views=("*",)),)),
        GrantSet((*held.grants, grant())),
    ):
        assert not held.allows_same_rows(other)


@given(st.lists(USERS, min_size=2, max_size=2, unique=True))
def test_subscription_id_identifies_its_owner(users: list[str]) -> None:
    mine, other = (GrantSet((grant(user=user),)) for user in users)
    id = owned_id(mine.user)
    assert str(uuid.UUID(id)) == id
    assert mine.owns(id)
    assert not other.owns(id)
    assert EVERYTHING.owns(id)
    assert GrantSet((STACK,)).owns(id)
    assert owned_id(mine.user) != id


@given(st.one_of(st.text(), st.uuids().map(str)))
def test_random_id_belongs_to_nobody(id: str) -> None:
    assert not GrantSet((grant(),)).owns(id)
    assert EVERYTHING.owns(id)


def test_subscription_id_without_a_user_is_random() -> None:
    assert uuid.UUID(owned_id("")).version == 4


def test_position_is_valid_only_under_its_filter() -> None:
    everything, german, french = (
        GrantSet((grant(),)),
        GrantSet((grant("c = 'DE'"),)),
        GrantSet((grant("c = 'FR'"),)),
    )
    own = Position("e1", 7)
    for teller in (everything, german, french):
        told = Position(teller.visible_epoch("odds", own.epoch), own.seq)
        assert Position.parse(str(told)) == told
        for reader in (everything, german, french):
            assert (reader.store_position("odds", told) == own) == (reader is teller)
    assert everything.visible_epoch("odds", "e1") == "e1"


def test_equivalent_filters_have_the_same_positions() -> None:
    one, other = GrantSet((grant("a = 1 and b = 2"),)), GrantSet((grant("b = 2"), grant("(a = 1.0)")))
    assert one.visible_epoch("odds", "e1") == other.visible_epoch("odds", "e1")
    by_view = Grant("ann", views=("*",), rows=(("bets", "a = 1"),))
    assert GrantSet((by_view,)).visible_epoch("odds", "e1") == "e1"


@given(st.text(), st.integers(0), st.sampled_from(["", "c = 'DE'"]))
def test_any_position_is_read(epoch: str, seq: int, rows: str) -> None:
    assert GrantSet((grant(rows),)).store_position("odds", Position(epoch, seq)).seq == seq


def test_query_is_narrowed_by_every_filter_of_its_view() -> None:
    grant = GrantSet(
        (Grant("ann", views=("*",), rows=(("*", "country = 'DE'"), ("odds", "sport = 'tennis'"))),)
    )
    whole = grant.narrow(Query.parse("odds", None))
    assert whole == Query.parse("odds", "country = 'DE' and sport = 'tennis'")
    assert grant.narrow(Query.parse("bets", "id = 1")) == Query.parse("bets", "id = 1 and country = 'DE'")
    some = grant.narrow(Query.of_keys("odds", ["a", "b"]))
    assert some.keys == ("a", "b")
    assert some.matches("a", row(country="DE", sport="tennis"))
    assert not some.matches("a", row(country="FR", sport="tennis"))
    assert not some.matches("c", row(country="DE", sport="tennis"))


def test_view_that_is_not_allowed_is_not_narrowed() -> None:
    with pytest.raises(Forbidden):
        GrantSet((Grant("ann", views=("odds",)),)).narrow(Query.parse("bets", None))


def test_without_filters_the_query_is_the_same() -> None:
    query = Query.parse("odds", "a = 1")
    assert GrantSet((Grant("ann", views=("odds",)),)).narrow(query) is query
    assert EVERYTHING.narrow(query) is query


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
    grant = GrantSet((Grant("ann", views=("odds",), rows=(("*", rows),)),))
    try:
        narrow = grant.narrow(asked)
    except BadQuery:
        assume(False)
    allowed = Query.parse("odds", rows)
    both = asked.matches("k", row(**fields)) and allowed.matches("k", row(**fields))
    assert narrow.matches("k", row(**fields)) == both
    assert grant.covers(narrow)
    assert grant.narrow(narrow).id == narrow.id


def test_query_of_another_user_is_covered_only_with_the_same_filter() -> None:
    german, french = GrantSet((grant("country = 'DE'"),)), GrantSet((grant("country = 'FR'", "bob"),))
    made = german.narrow(Query.parse("odds", "sport = 'tennis'"))
    assert german.covers(made)
    assert not french.covers(made)
    assert not german.covers(Query.parse("odds", None))
    assert not german.covers(Query.of_keys("odds", ["a"]))
    assert GrantSet((grant(),)).covers(made)
    assert not GrantSet((grant(views=("bets",)),)).covers(made)


def showing(fields: str, rows: str = "") -> Grant:
    return replace(grant(rows), columns=(("*", parse_field_mask(fields)),))


@pytest.mark.parametrize(
    ("where", "field"),
    [
        ("salary > 1", "salary"),
        ("name = 'x' or salary is null", "salary"),
        ("not (home.zip = '1')", "home.zip"),
        ("home is null", "home"),
    ],
)
def test_query_that_looks_at_a_hidden_field_is_refused(where: str, field: str) -> None:
    held = GrantSet((showing("name,home.city"),))
    for query in (Query.parse("odds", where), Query.parse("odds", None).ordered(order_of(field, 1))):
        with pytest.raises(Forbidden, match=f'the field "{field}"'):
            held.narrow(query)


def test_query_by_shown_fields_and_keys_is_served() -> None:
    held = GrantSet((showing("name,home.city"),))
    for query in (Query.parse("odds", "name = 'x' and home.city like 'B%'"), Query.of_keys("odds", ["a"])):
        assert held.narrow(query) == query
        assert held.covers(query)
    GrantSet((showing("home"),)).narrow(Query.parse("odds", "home.zip = '1'"))


def test_row_filter_may_use_hidden_fields_but_queries_may_not() -> None:
    held = GrantSet((showing("name", "salary < 100"),))
    served = held.narrow(Query.parse("odds", "name = 'x'"))
    assert served == Query.parse("odds", "name = 'x' and salary < 100")
    assert held.covers(served)
    probing = Query.parse("odds", "name = 'x' and salary < 100 and salary > 90")
    assert not held.covers(probing)
    assert GrantSet((grant("salary < 100"),)).covers(probing)
    ordered = served.ordered(order_of("salary", 1))
    assert not held.covers(ordered)


def test_query_under_two_grants_may_look_at_what_both_show() -> None:
    held = GrantSet((showing("a,b", "z = 1"), showing("b,c", "y = 1")))
    served = held.narrow(Query.parse("odds", "b = 1"))
    assert held.covers(served)
    for field in ("a", "c", "z"):
        with pytest.raises(Forbidden):
            held.narrow(Query.parse("odds", f"{field} = 1"))


@given(FILTERS, FILTERS)
def test_any_query_that_was_narrowed_is_covered_under_the_same_columns(rows: str, where: str) -> None:
    held = GrantSet((showing("country", rows),))
    try:
        served = held.narrow(Query.parse("odds", where))
    except (BadQuery, Forbidden):
        assume(False)
    assert held.covers(served)


def test_visible_fields_are_requested_and_allowed_by_all_grants() -> None:
    held = GrantSet((showing("a,b.c"), showing("b,d")))
    assert held.visible_fields("odds", None) == parse_field_mask("b.c")
    assert held.visible_fields("odds", parse_field_mask("a,b")) == parse_field_mask("b.c")
    nothing = held.visible_fields("odds", parse_field_mask("a"))
    assert nothing is not None
    assert nothing.project(b'{"a":1,"b":{"c":2}}') == b"{}"
    assert EVERYTHING.visible_fields("odds", None) is None


def test_position_is_valid_only_under_its_columns() -> None:
    some, more, everything = GrantSet((showing("a"),)), GrantSet((showing("a,b"),)), GrantSet((grant(),))
    for teller in (some, more, everything):
        told = Position(teller.visible_epoch("odds", "e1"), 7)
        for reader in (some, more, everything):
            assert (reader.store_position("odds", told).epoch == "e1") == (reader is teller)
    assert not some.allows_same_rows(more)
