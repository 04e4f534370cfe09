"""The internal topic through which a view is re-keyed before it is reduced, and when it is cleared (R7).

One row is written by one partition. If the producers partition a topic by something other than a view's key,
the records go through an internal topic that is keyed by the row key, and carry where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from distributary.kafka.topics import Topic
from distributary.model.build import Build
from distributary.reducers.topic_identity import Leaders

CLEARING_SECONDS = 60.0
"""How long after it was folded a re-keyed record is deleted, at least."""
INTERNAL_TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Of the topic of re-keyed records: Kafka deletes nothing by itself, what is folded is deleted by the job."""


class Topics(NamedTuple):
    """The source of a view, and the topic that its reducers read: the same, unless the view is re-keyed."""

    source: Topic
    read: Topic
    source_leaders: Leaders
    read_leaders: Leaders


def internal_topic(build: Build) -> str:
    """The name of the topic that a re-keyed build is read from."""
    return f"distributary.rekeyed.{build.view}.{build.id}"


class Clearing:
    """Which re-keyed records may be deleted: those that were folded a while ago. Pure.

    A store that went back (R2) has lost its last writes, and its marks with them. The records after those
    marks are folded again, so they must still exist. A store that is synced every second loses a few seconds.
    """

    def __init__(self, now: float) -> None:
        self._checked = now
        self._marks: Mapping[int, int] = {}

    def due(self, now: float, read: Callable[[], Mapping[int, int]]) -> Mapping[int, int]:
        """Return the offset of each partition before which records may be deleted now; mostly none.

        ``read`` returns the marks that the store has now. A partition that went back meanwhile loses nothing
        that it may need.
        """
        if now - self._checked < CLEARING_SECONDS:
            return {}
        before, marks = self._marks, read()
        self._marks, self._checked = marks, now
        return {
            partition: min(at, marks[partition]) for partition, at in before.items() if partition in marks
        }
