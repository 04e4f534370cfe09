from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import Forbidden
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.permit import EVERYTHING, Grant, Held, owned_id

USERS = st.text(min_size=1, max_size=20)


def grant(rows: str = "", user: str = "ann", views: tuple[str, ...] = ("odds",)) -> Grant:
    return Grant(user, views=views, rows=(("*", rows),) if rows else ())


def test_only_what_all_allow_is_allowed() -> None:
    both = Held((grant("country = 'DE'"), grant("price > 1")))
    asked = Query.parse("odds", "sport = 'tennis'")
    served = Query.parse("odds", "sport = 'tennis' and country = 'DE' and price > 1")
    assert both.narrow(asked) == served
    assert both.covers(served)
    assert not both.covers(Query.parse("odds", "sport = 'tennis' and country = 'DE'"))
    for held in (Held((grant(), grant(views=("bets",)))), Held((grant(views=("bets",)), grant()))):
        with pytest.raises(Forbidden):
            held.view("odds")
        with pytest.raises(Forbidden):
            held.narrow(asked)
        assert not held.covers(asked)


def test_what_reads_like_it() -> None:
    held = Held((grant("a = 1"),))
    assert held.reads_like(Held((replace(held.grants[0], expires_at=9),)))
    for other in (
        Held((grant("a = 2"),)),
        Held((grant("a = 1", views=("*",)),)),
        Held((*held.grants, grant())),
    ):
        assert not held.reads_like(other)


@given(st.lists(USERS, min_size=2, max_size=2, unique=True))
def test_an_id_says_whose_it_is(users: list[str]) -> None:
    mine, other = (Held((grant(user=user),)) for user in users)
    id = owned_id(mine.user)
    assert str(uuid.UUID(id)) == id
    assert mine.owns(id)
    assert not other.owns(id)
    assert EVERYTHING.owns(id)
    assert owned_id(mine.user) != id


@given(st.one_of(st.text(), st.uuids().map(str)))
def test_what_nobody_made_is_nobodys(id: str) -> None:
    assert not Held((grant(),)).owns(id)
    assert EVERYTHING.owns(id)


def test_without_permission_an_id_is_like_any_other() -> None:
    assert uuid.UUID(owned_id("")).version == 4


def test_a_position_is_of_use_only_under_the_filter_that_it_was_told_under() -> None:
    everything, german, french = Held((grant(),)), Held((grant("c = 'DE'"),)), Held((grant("c = 'FR'"),))
    own = Position("e1", 7)
    for teller in (everything, german, french):
        told = Position(teller.epoch("odds", own.epoch), own.seq)
        assert Position.parse(str(told)) == told
        for reader in (everything, german, french):
            assert (reader.position("odds", told) == own) == (reader is teller)
    assert everything.epoch("odds", "e1") == "e1"


def test_a_filter_written_otherwise_is_the_same() -> None:
    one, other = Held((grant("a = 1 and b = 2"),)), Held((grant("b = 2"), grant("(a = 1.0)")))
    assert one.epoch("odds", "e1") == other.epoch("odds", "e1")
    by_view = Grant("ann", views=("*",), rows=(("bets", "a = 1"),))
    assert Held((by_view,)).epoch("odds", "e1") == "e1"


@given(st.text(), st.integers(0), st.sampled_from(["", "c = 'DE'"]))
def test_any_position_is_read(epoch: str, seq: int, rows: str) -> None:
    assert Held((grant(rows),)).position("odds", Position(epoch, seq)).seq == seq
