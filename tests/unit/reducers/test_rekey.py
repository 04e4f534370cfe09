"""Which views are re-keyed is decided from the configuration."""

from __future__ import annotations

from distributary.model.build import Build
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.reducers.rekey import internal_topic, needs_rekey

FEED = Feed("f", "t")


def test_only_a_key_that_records_are_not_partitioned_by_is_rekeyed() -> None:
    assert needs_rekey(View("v", "f", key="sport"), FEED, 2)
    assert not needs_rekey(View("v", "f", key="sport"), FEED, 1)
    assert not needs_rekey(View("v", "f", key="sport"), Feed("f", "t", partitioned_by="sport"), 2)
    assert not needs_rekey(View("v", "f"), FEED, 2)
    assert not needs_rekey(View("v", "f", key="record_key"), FEED, 2)


def test_a_topic_that_grew_forces_it() -> None:
    assert needs_rekey(View("v", "f"), FEED, 4, forced=True)
    assert not needs_rekey(View("v", "f"), FEED, 1, forced=True)


def test_every_build_has_a_topic_of_its_own() -> None:
    assert internal_topic(Build("v", "a")) != internal_topic(Build("v", "b"))
