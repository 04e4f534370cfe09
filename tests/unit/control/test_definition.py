from __future__ import annotations

import json

import pytest
from tests.unit.control.conftest import FEED

from distributary.control.definition import read_definition
from distributary.errors import BadDefinition
from distributary.model.build import load_definition
from distributary.model.feed import Feed


def test_a_feed_without_a_name_takes_the_views() -> None:
    found = read_definition("bets", {"feed": {"topic": "t"}}, [])
    assert (found.view.feed, found.feed.name, found.feed.topic) == ("bets", "bets", "t")


def test_a_feed_in_full_goes_before_a_known_one() -> None:
    body = {"view": {"feed": "odds"}, "feed": {"topic": "newer"}}
    assert read_definition("odds", body, [FEED]).feed.topic == "newer"


def test_null_means_the_default() -> None:
    assert (
        read_definition("odds", {"feed": "odds", "ttl": None, "reduce": None}, [FEED]).view.reduce == "merge"
    )


def test_a_view_and_a_feed_that_do_not_meet() -> None:
    body = {"view": {"feed": "other"}, "feed": {"name": "odds", "topic": "t"}}
    with pytest.raises(BadDefinition, match='there is no feed "other"'):
        read_definition("odds", body, [])


def test_an_event_feed_comes_by_name_or_in_full() -> None:
    rules = {"reduce": "m:f", "reduce_events": "m:g"}
    ticks = {"name": "ticks", "topic": "t"}
    known = read_definition("odds", {"feed": "odds", "events": "ticks", **rules}, [FEED, Feed("ticks", "t")])
    assert known.events == Feed("ticks", "t")
    assert read_definition("odds", {"feed": "odds", "events": ticks, **rules}, [FEED]) == known
    assert read_definition("odds", json.loads(known.text), []) == known
    assert load_definition(known.text) == known
    assert known.build != known._replace(events=Feed("ticks", "another")).build
    with pytest.raises(BadDefinition, match='there is no feed "ticks"'):
        read_definition("odds", {"feed": "odds", "events": "ticks", **rules}, [FEED])
