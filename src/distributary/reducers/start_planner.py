"""Reads from Kafka where a build's queries start, and checks that its topics are still the same (R8)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from distributary.config.sections import Kafka
from distributary.errors import BadView
from distributary.kafka import topic_offsets
from distributary.kafka.topics import Topic, ensure_topic, find_topic, get_topic, is_compacted, replace_topic
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.partition_state import read_event_progress
from distributary.model.position import Mark
from distributary.reducers.event_reader import EventFeed
from distributary.reducers.rekey import INTERNAL_TOPIC_CONFIG, internal_topic
from distributary.reducers.start_offsets import StartOffsets, event_start_offsets, start_offsets
from distributary.reducers.topic_identity import Expected, Leaders, judge, read_checksums, to_look_at
from distributary.store.contract import WriterStore
from distributary.store.errors import TopicReplaced
from distributary.store.store_types import BuildInfo


class StartPlanner:
    """For one build. Raises Truncated where a topic has lost records that were folded."""

    def __init__(
        self, kafka: Kafka, admin: Any, store: WriterStore, build: Build, definition: Definition
    ) -> None:
        self._kafka = kafka
        self._admin = admin
        self._store = store
        self._build = build
        self._view = definition.view

    def topic(
        self,
        topic: Topic,
        marks: Mapping[int, Mark],
        expected: Expected = (),
        *,
        internal: bool = False,
    ) -> StartOffsets:
        """Decide where to start in a topic; an ``internal`` one is always read whole.

        ``expected`` are records that must be as they were.
        """
        earliest = topic_offsets.earliest_offsets(self._admin, topic.name)
        ends = topic_offsets.end_offsets(self._admin, topic.name)
        first = earliest if internal else self._first(topic.name, earliest, ends, begun=bool(marks))
        found = start_offsets(self._view, marks, earliest, ends, first)
        self._recognise(topic, expected, earliest, ends)
        return found

    def events(self, feed: Feed, topic: Topic, *, begun: bool) -> tuple[EventFeed, bool]:
        """Decide where the event feed starts; also returns whether events that are needed are gone."""
        # Before the records are recognised: an election after that is noticed by these epochs.
        leaders = Leaders.read(self._admin, topic.name)
        info = self._store.build(self._build)
        earliest = topic_offsets.earliest_offsets(self._admin, topic.name)
        ends = topic_offsets.end_offsets(self._admin, topic.name)
        first = self._first(topic.name, earliest, ends, begun=begun)
        states = info.partition_states if info is not None else {}
        found = event_start_offsets(self._view, states, topic.id, earliest[0], ends[0], first[0])
        progress = [one for state in states.values() if (one := read_event_progress(state)) is not None]
        self._recognise(topic, [(0, one.fingerprint) for one in progress if one.fingerprint], earliest, ends)
        return EventFeed(feed, topic.id, earliest[0], found.starts[0], leaders), found.incomplete

    def event_topic(self, feed: Feed) -> Topic:
        """Find or create the topic of the event feed, which has one partition; raises BadView for another."""
        if feed.create:
            ensure_topic(self._admin, feed.topic, 1)
        ensure_topic(self._admin, feed.dead_letter_topic, 1)
        found = get_topic(self._admin, feed.topic)
        if found.partitions != 1:
            raise BadView(
                f"view {self._build.view}: the topic {found.name} of its event feed has {found.partitions} "
                "partitions; it must have one, so that every reducer folds the events in the same order"
            )
        return found

    def internal_topic(self, info: BuildInfo | None, partitions: int) -> Topic:
        """Find the topic of re-keyed records that this life of the build writes to, or create a new one.

        What a build of the same name left there, before a FLUSHALL or a delete, has attempts of its own.
        Raises TopicReplaced when records went through a topic that does not exist any more.
        """
        name = internal_topic(self._build)
        found = find_topic(self._admin, name)
        of_before = info is not None and not info.internal and bool(info.rekey_offsets or info.marks)
        if found is not None and info is not None and (info.internal == found.id or of_before):
            return found
        if info is not None and info.internal and info.rekey_offsets:
            raise TopicReplaced(name)
        created = replace_topic(self._admin, name, partitions, INTERNAL_TOPIC_CONFIG)
        self._store.update_build(self._build, internal=created.id)
        return created

    def _first(
        self, topic: str, earliest: dict[int, int], ends: dict[int, int], *, begun: bool
    ) -> dict[int, int]:
        """Where a partition without a mark starts; one that was added later is read whole."""
        start = self._view.start
        if start == "earliest" or begun:
            return earliest
        if start == "now":
            return ends
        time_ms = int(datetime.fromisoformat(start.replace("Z", "+00:00")).timestamp() * 1000)
        return topic_offsets.offsets_at(self._admin, topic, time_ms)

    def _recognise(
        self, topic: Topic, expected: Expected, earliest: Mapping[int, int], ends: Mapping[int, int]
    ) -> None:
        """Raise Truncated unless the records that were folded last are still there."""
        looked_for = to_look_at(expected, earliest, ends)
        if looked_for:
            found = read_checksums(self._kafka, topic.name, looked_for)
            judge(looked_for, found, lambda: is_compacted(self._admin, topic.name))
