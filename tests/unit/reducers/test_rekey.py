"""Which views are re-keyed is decided from the configuration."""

from __future__ import annotations

from distributary.model.build import Build
from distributary.reducers.rekey import internal_topic


def test_every_build_has_a_topic_of_its_own() -> None:
    assert internal_topic(Build("v", "a")) != internal_topic(Build("v", "b"))
