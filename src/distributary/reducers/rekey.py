"""Which views must be re-keyed before they are reduced, and through which topic (R7).

One row is written by one partition. Where the producers partition a topic by
something else than a view's key, the records go through an internal topic that
is keyed by the row key, and carry where they came from.
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.kafka.topics import Topic
from distributary.model.build import Build
from distributary.reducers.topic_identity import Leaders


class Topics(NamedTuple):
    """The topic that a view is made of, and the one that its reducers read."""

    source: Topic
    read: Topic
    source_leaders: Leaders
    read_leaders: Leaders


def internal_topic(build: Build) -> str:
    """The topic that a re-keyed build is read from."""
    return f"distributary.rekeyed.{build.view}.{build.id}"
