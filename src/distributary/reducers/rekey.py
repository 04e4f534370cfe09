"""Which views must be re-keyed before they are reduced, and through which topic (R7).

One row is written by one partition. Where the producers partition a topic by
something else than a view's key, the records go through an internal topic that
is keyed by the row key, and carry where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


CLEARING_SECONDS = 60.0
"""How long after it was folded a re-keyed record is deleted, at least."""
INTERNAL_TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Of the topic of re-keyed records: Kafka deletes nothing by itself, what is folded is deleted by the job."""


class Clearing:
    """Remembers where the marks were at the look before."""

    def __init__(self, now: float) -> None:
        self._looked = now
        self._marks: Mapping[int, int] = {}

    def due(self, now: float, read: Callable[[], Mapping[int, int]]) -> Mapping[int, int]:
        """Give the offset of each partition before which records may be deleted now; mostly none.

        ``read`` gives the marks that the store has now. Of a partition that went back meanwhile nothing is
        deleted that it may need.
        """
        if now - self._looked < CLEARING_SECONDS:
            return {}
        before, marks = self._marks, read()
        self._marks, self._looked = marks, now
        return {
            partition: min(at, marks[partition]) for partition, at in before.items() if partition in marks
        }
