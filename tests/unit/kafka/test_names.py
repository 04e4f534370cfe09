from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import NameRefused
from distributary.kafka.names import CONVENTION, application, check_group, check_topic, strangers, suggestion


@pytest.mark.parametrize(
    "name", ["sportsbook.odds", "a.b", "shop-2.orders.dead-letters", "distributary.commands"]
)
def test_the_convention(name: str) -> None:
    check_topic(name)
    check_group(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("odds", ""),
        ("SportsBook.Odds", "sports-book.odds"),
        ("sports_book.live_odds", "sports-book.live-odds"),
        ("sportsbook..odds", "sportsbook.odds"),
        ("7.odds", ""),
        ("two words.x", "two-words.x"),
    ],
)
def test_others_are_refused_with_what_is_near(name: str, near: str) -> None:
    assert suggestion(name) == near
    with pytest.raises(NameRefused) as refused:
        check_topic(name)
    assert near in refused.value.hint
    assert "--force" in refused.value.hint


@given(st.text("aZ9._- é", max_size=12))
def test_a_suggestion_is_good(name: str) -> None:
    near = suggestion(name)
    if near:
        assert re.fullmatch(CONVENTION, near)
        assert suggestion(near) == near


def test_ones_own_convention() -> None:
    check_topic("odds", "[a-z]+")
    check_topic("Anything_9", "")
    check_group("whatever you like", "")
    for name in ("", " "):
        with pytest.raises(NameRefused):
            check_group(name, "")
    with pytest.raises(NameRefused, match="249"):
        check_topic("two words", "")


def test_whose_a_client_is() -> None:
    assert [application(one) for one in ("shop-7", "Shop.web", "shop", "")] == ["shop", "shop", "shop", ""]
    assert strangers(["shop-1", "cart-2", "cart-2", "shop_9"], "shop-new") == ["cart-2"]
