"""Where a build starts in its topics, and whether what it needs is still there (R8, R9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from distributary.config.sections import Kafka
from distributary.errors import BadView
from distributary.kafka import topic_offsets
from distributary.kafka.topics import Topic, ensure_topic, find_topic, get_topic, is_compacted, replace_topic
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.partition_state import folded_offset, read_event_progress, source_fingerprints
from distributary.model.position import Mark
from distributary.model.view import View
from distributary.reducers.event_reader import EventFeed
from distributary.reducers.rekey import INTERNAL_TOPIC_CONFIG, Topics, internal_topic
from distributary.reducers.topic_identity import (
    Expected,
    Leaders,
    Truncated,
    check_records,
    checkable,
    read_checksums,
)
from distributary.store.contract import WriterStore
from distributary.store.errors import TopicReplaced
from distributary.store.store_types import BuildInfo, Claimed


class StartOffsets(NamedTuple):
    """First offsets to read, how many records wait, and whether some that the rule needs are gone (R9)."""

    starts: dict[int, int]
    waiting: int
    incomplete: bool


def start_offsets(
    view: View,
    marks: Mapping[int, Mark],
    earliest: Mapping[int, int],
    ends: Mapping[int, int],
    first: Mapping[int, int],
) -> StartOffsets:
    """Decide where each partition starts; ``first`` is where a new partition of this view would start.

    Raises Truncated when a stored mark is beyond the end of the topic.
    """
    starts: dict[int, int] = {}
    incomplete = False
    for partition, begin in earliest.items():
        mark = marks.get(partition)
        if mark is None:
            starts[partition] = max(first.get(partition, begin), begin)
            if view.start == "earliest" and begin > 0 and view.reduce != "latest":
                incomplete = True
            continue
        if mark.offset > ends[partition] or (mark.part and mark.offset >= ends[partition]):
            raise Truncated(
                f"partition {partition} ends at {ends[partition]}, the view stands at {mark.offset}"
            )
        if mark.offset < begin and not (mark.part and mark.offset + 1 >= begin):
            incomplete = True
        starts[partition] = max(mark.offset, begin)
    waiting = sum(max(0, ends[p] - folded_offset(marks.get(p), at)) for p, at in starts.items())
    return StartOffsets(starts=starts, waiting=waiting, incomplete=incomplete)


def event_start_offsets(
    view: View, states: Mapping[int, str], topic: str, earliest: int, end: int, first: int
) -> StartOffsets:
    """Decide where the event feed starts for partitions that have folded no event (under partition 0).

    Raises Truncated when a partition stands beyond the end, or in a topic with another id.
    """
    reached = [found for state in states.values() if (found := read_event_progress(state)) is not None]
    for one in reached:
        if one.topic != topic or one.offset > end or (one.key is not None and one.offset >= end):
            raise Truncated(f"the event feed ends at {end}, the view stands at {one.offset}")
    lost = any(one.offset < earliest for one in reached)
    if not reached:
        lost = view.start == "earliest" and earliest > 0
    return StartOffsets({0: max(first, earliest)}, events_lag(states, end), lost)


def events_lag(states: Mapping[int, str], end: int) -> int:
    """How many events the slowest partition must still fold; one without rows waits for none."""
    reached = [found.offset for state in states.values() if (found := read_event_progress(state)) is not None]
    return max(0, end - min(reached, default=end))


def marks_of(offsets: Mapping[int, int]) -> dict[int, Mark]:
    """Return offsets as marks."""
    return {partition: Mark(offset) for partition, offset in offsets.items()}


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

    def topics(self, source: Topic, before: BuildInfo | None, *, rekeyed: bool) -> Topics:
        """Return the topic to read beside the source, and the epochs of the leaders of both.

        The epochs are read before the records at the marks are recognised: they show an election after that.
        """
        read = self.internal_topic(before, source.partitions) if rekeyed else source
        leaders = Leaders.read(self._admin, source.name)
        read_leaders = Leaders.read(self._admin, read.name) if rekeyed else leaders
        return Topics(source=source, read=read, source_leaders=leaders, read_leaders=read_leaders)

    def starts(
        self, topics: Topics, claimed: Claimed, before: BuildInfo | None, *, rekeyed: bool
    ) -> tuple[StartOffsets, StartOffsets]:
        """Decide where reducers start, and where the source is read from."""
        known = claimed.fingerprints
        if not rekeyed:
            starts = self.topic(topics.source, claimed.marks, known.read.items())
            return starts, starts
        states = before.partition_states.values() if before is not None else ()
        folded = (*known.source.items(), *source_fingerprints(states).items())
        rekey_starts = self.topic(topics.source, marks_of(claimed.rekey_offsets), folded)
        copied = (*known.read.items(), *known.copied.items())
        return self.topic(topics.read, claimed.marks, copied, internal=True), rekey_starts

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

    def events(self, feed: Feed | None, topic: Topic | None, *, begun: bool) -> tuple[EventFeed | None, bool]:
        """Decide where the event feed starts, if any; also returns whether needed events are gone."""
        if feed is None or topic is None:
            return None, False
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
        checksums = checkable(expected, earliest, ends)
        if checksums:
            found = read_checksums(self._kafka, topic.name, checksums)
            check_records(checksums, found, lambda: is_compacted(self._admin, topic.name))
