from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import NameRefused
from distributary.kafka.naming import (
    ANY,
    CONVENTION,
    application,
    check_group,
    check_topic,
    foreign_client_ids,
    suggestion,
)


@pytest.mark.parametrize(
    "name", ["sportsbook.odds", "a.b", "shop-2.orders.dead-letters", "distributary.commands"]
)
def test_name_by_the_convention_gets_no_warning(name: str) -> None:
    assert check_topic(name) == check_group(name) == ""
    assert check_topic(name, CONVENTION) == check_group(name, CONVENTION) == ""


@pytest.mark.parametrize("name", ["chat", "events", "purchases", "test", "random_walk", "foo", "Sports.Odds"])
def test_other_name_gets_a_warning_when_no_convention_is_set(name: str) -> None:
    for kind, note in (("topic", check_topic(name)), ("group", check_group(name))):
        assert f"{kind} {name!r} does not follow the naming convention" in note
        assert f'naming.{kind}s = ".*"' in note
        assert (suggestion(name) or "sportsbook.odds") in note


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("odds", ""),
        ("SportsBook.Odds", "sports-book.odds"),
        ("sports_book.live_odds", "sports-book.live-odds"),
        ("sportsbook..odds", "sportsbook.odds"),
        ("7.odds", ""),
    ],
)
def test_other_name_is_refused_with_a_suggestion_when_a_convention_is_set(name: str, near: str) -> None:
    assert suggestion(name) == near
    for check, key in ((check_topic, "naming.topics"), (check_group, "naming.groups")):
        with pytest.raises(NameRefused, match=key) as refused:
            check(name, CONVENTION)
        assert near in refused.value.hint
        assert "--force" in refused.value.hint


@pytest.mark.parametrize(("name", "near"), [("two words.x", "two-words.x"), ("", ""), ("..", ""), ("é", "")])
@pytest.mark.parametrize("pattern", [None, ANY, CONVENTION])
def test_name_that_kafka_does_not_accept_is_always_refused(name: str, near: str, pattern: str | None) -> None:
    with pytest.raises(NameRefused, match="249") as refused:
        check_topic(name, pattern)
    assert near in refused.value.hint
    assert "--force" not in refused.value.hint, "Kafka would not accept it either way"


@given(st.text("aZ9._- é", max_size=12))
def test_suggested_name_follows_the_convention(name: str) -> None:
    near = suggestion(name)
    if near:
        assert re.fullmatch(CONVENTION, near)
        assert suggestion(near) == near


def test_configured_convention_replaces_the_suggested_one() -> None:
    assert check_topic("odds", "[a-z]+") == ""
    assert check_topic("Anything_9", ANY) == ""
    assert check_group("whatever\nyou like", ANY) == ""
    for name in ("", " "):
        with pytest.raises(NameRefused):
            check_group(name, ANY)


def test_client_id_names_its_application() -> None:
    assert [application(one) for one in ("shop-7", "Shop.web", "shop", "")] == ["shop", "shop", "shop", ""]
    assert foreign_client_ids(["shop-1", "cart-2", "cart-2", "shop_9"], "shop-new") == ["cart-2"]
