from __future__ import annotations

import pytest
from tests.unit.control.conftest import FEED

from distributary.control.definition import read_definition
from distributary.errors import BadDefinition


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
