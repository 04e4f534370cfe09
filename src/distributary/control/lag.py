"""How far a build is behind its topic: Kafka's end offsets against the store's marks. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from distributary.control.observation import Ends, KafkaObservation, NextRecord
from distributary.model.build import Definition
from distributary.model.partition_state import FILTERED_MARK_EVERY, folded_offset, source_offsets
from distributary.store.store_types import BuildInfo

HISTORY_SECONDS = 600.0
"""For which end offsets are kept, to know since when records wait."""
RATE_SECONDS = 5.0
"""Over which rates are computed."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What is known of a build from an observation and those before it.

    ``records`` wait to be folded, the oldest of them for ``seconds`` (0.0 if none waits). ``stalled_for`` is
    for how long records have waited without any being folded. ``rate`` is records folded per second,
    ``changes`` the changes of rows per second, ``dead`` the dead letters of the last `RATE_SECONDS`. None:
    not known yet.
    """

    records: int
    seconds: float
    stalled_for: float
    rate: float | None
    changes: float | None
    dead: int
    ends: Mapping[int, int]


def read_topic(definition: Definition, kafka: KafkaObservation | None) -> tuple[Ends, Ends] | None:
    """Return the end offsets and the first offsets of a view's topic; None if they are not known."""
    topic = definition.feed.topic
    if kafka is None or not kafka.answers or topic not in kafka.ends:
        return None
    return kafka.ends[topic], kafka.first.get(topic, {})


def folded_offsets(definition: Definition, build: BuildInfo, ends: Ends, first: Ends) -> dict[int, int]:
    """Return the offset up to which each partition of a view's topic is folded."""
    starts = {partition: first.get(partition, 0) for partition in ends}
    if definition.view.needs_rekey(definition.feed, len(ends), forced=build.rekey):
        return source_offsets(build.partition_states, build.rekey_offsets, starts)
    return {
        partition: folded_offset(build.marks.get(partition), start) for partition, start in starts.items()
    }


def max_filtered(definition: Definition, partitions: int) -> int:
    """Return how many records may have been read and filtered out without moving the mark (R12)."""
    return FILTERED_MARK_EVERY * partitions if definition.view.where is not None else 0


class LagTracker:
    """Follows one build from observation to observation."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, Ends]] = deque()
        self._counts: deque[tuple[float, int, int, int]] = deque()
        self._last: tuple[float, dict[int, int], Ends, int] = (0.0, {}, {}, 0)
        self._rated: tuple[float | None, float | None, int] = (None, None, 0)
        self._offsets: dict[int, int] = {}
        self._moved = 0.0
        """When the offsets changed for the last time."""
        self._waiting: dict[int, tuple[int, float]] = {}
        """By partition with waiting records: the next offset, and since when it is that."""
        self._empty: dict[int, tuple[int, int]] = {}
        """By partition: offsets from and to which there is no record."""

    def observe(
        self, at: float, build: BuildInfo, offsets: Mapping[int, int], ends: Ends, *, slack: int = 0
    ) -> Lag:
        """Add an observation at a monotonic time.

        ``slack`` is how many records of the lag may have been read already (see `max_filtered`): they do not
        wait.
        """
        self._last = (at, dict(offsets), dict(ends), slack)
        self._remember(at, ends)
        self._rated = self._rates(at, build)
        return self._lag()

    def stalled(self, seconds: float) -> dict[int, int]:
        """Return the next offset of partitions in which nothing was folded for so long although offsets wait.

        Whether a record waits must be checked: the end of a transaction has an offset, too.
        """
        at = self._last[0]
        return {p: offset for p, (offset, since) in self._waiting.items() if at - since >= seconds}

    def note_empty(self, partitions: Collection[int]) -> Lag:
        """Note that these partitions have no record between their next offset and the last end offset."""
        for partition in partitions:
            offset, _ = self._waiting[partition]
            self._empty[partition] = (offset, self._last[2][partition])
        return self._lag()

    def _lag(self) -> Lag:
        at, offsets, ends, slack = self._last
        reached = {p: self._skip_empty(p, offsets.get(p, 0)) for p in ends}
        waiting = {p: end - reached[p] for p, end in ends.items() if end > reached[p]}
        records = sum(waiting.values())
        if reached != self._offsets or records <= slack:
            self._offsets, self._moved = reached, at
        before = {p: self._waiting.get(p, (-1, at)) for p in waiting} if records > slack else {}
        self._waiting = {
            p: (reached[p], since if last == reached[p] else at) for p, (last, since) in before.items()
        }
        seconds = max((at - self._since(p, reached[p], at) for p in waiting), default=0.0)
        rate, changes, dead = self._rated
        return Lag(
            records=records,
            seconds=seconds if records > slack else 0.0,
            stalled_for=at - self._moved,
            rate=rate,
            changes=changes,
            dead=dead,
            ends=dict(ends),
        )

    def _skip_empty(self, partition: int, offset: int) -> int:
        """Return the next offset of a partition, after those that are known to have no record."""
        first, last = self._empty.get(partition, (0, 0))
        return last if first <= offset <= last else offset

    def _remember(self, at: float, ends: Ends) -> None:
        if not self._ends or dict(self._ends[-1][1]) != dict(ends):
            self._ends.append((at, dict(ends)))
        while len(self._ends) > 1 and self._ends[1][0] < at - HISTORY_SECONDS:
            self._ends.popleft()

    def _since(self, partition: int, offset: int, at: float) -> float:
        """Return when the record at an offset was first observed."""
        for time, ends in self._ends:
            if ends.get(partition, 0) > offset:
                return time
        return at

    def _rates(self, at: float, build: BuildInfo) -> tuple[float | None, float | None, int]:
        self._counts.append((at, build.records, build.seq, build.dead))
        while len(self._counts) > 2 and self._counts[1][0] <= at - RATE_SECONDS:
            self._counts.popleft()
        start, records, seq, dead = self._counts[0]
        if at <= start:
            return None, None, 0
        seconds = at - start
        # A build that starts over counts from 0 again.
        return (
            max(0.0, (build.records - records) / seconds),
            max(0.0, (build.seq - seq) / seconds),
            max(0, build.dead - dead),
        )


def with_age(lag: Lag, record: NextRecord, time: int) -> Lag:
    """Correct a lag by the time of the next record, which may be older than the first observation."""
    return replace(lag, seconds=max(lag.seconds, (time - record.time) / 1000))
