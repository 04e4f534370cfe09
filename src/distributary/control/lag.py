"""How far a build is behind its topic, by who looks: Kafka's ends against the store's marks. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from distributary.control.observation import Ends, KafkaSight, Oldest
from distributary.model.build import Definition
from distributary.model.partition_state import FILTERED_MARK_EVERY, folded_offset, source_offsets
from distributary.store.store_types import BuildInfo

MEMORY = 600.0
"""Seconds of ends that are remembered, to tell since when records wait."""
OVER = 5.0
"""Seconds over which rates are taken."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What one look, together with those before, says of a build.

    ``records`` wait to be folded, the oldest of them for ``seconds`` (0.0 when none does). ``still`` is for
    how long records have waited without any being folded. ``rate`` is records folded a second, ``changes``
    the changes of rows a second, ``dead`` the dead letters of the last seconds. None: not known yet.
    """

    records: int
    seconds: float
    still: float
    rate: float | None
    changes: float | None
    dead: int
    ends: Mapping[int, int]


def read_topic(definition: Definition, kafka: KafkaSight | None) -> tuple[Ends, Ends] | None:
    """Where a view's topic ends and begins; None when that is not known."""
    topic = definition.feed.topic
    if kafka is None or not kafka.answers or topic not in kafka.ends:
        return None
    return kafka.ends[topic], kafka.first.get(topic, {})


def reached(definition: Definition, build: BuildInfo, ends: Ends, first: Ends) -> dict[int, int]:
    """The offset before which each partition of a view's topic is folded."""
    starts = {partition: first.get(partition, 0) for partition in ends}
    if definition.view.needs_rekey(definition.feed, len(ends), forced=build.rekey):
        return source_offsets(build.partition_states, build.rekey_offsets, starts)
    return {
        partition: folded_offset(build.marks.get(partition), start) for partition, start in starts.items()
    }


def unseen(definition: Definition, partitions: int) -> int:
    """How many records may have been read and filtered out without a mark that says so (R12)."""
    return FILTERED_MARK_EVERY * partitions if definition.view.where is not None else 0


class Track:
    """Follows one build from look to look."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, Ends]] = deque()
        self._counts: deque[tuple[float, int, int, int]] = deque()
        self._last: tuple[float, dict[int, int], Ends, int] = (0.0, {}, {}, 0)
        self._rated: tuple[float | None, float | None, int] = (None, None, 0)
        self._at: dict[int, int] = {}
        self._moved = 0.0
        self._stands: dict[int, tuple[int, float]] = {}
        self._empty: dict[int, tuple[int, int]] = {}

    def look(
        self, at: float, build: BuildInfo, at_offsets: Mapping[int, int], ends: Ends, *, slack: int = 0
    ) -> Lag:
        """Take in a look at a monotonic time.

        ``slack`` is how many records of the lag may have been read already (see ``unseen``): they wait for
        nobody.
        """
        self._last = (at, dict(at_offsets), dict(ends), slack)
        self._remember(at, ends)
        self._rated = self._rates(at, build)
        return self._judged()

    def suspects(self, seconds: float) -> dict[int, int]:
        """The partitions in which something has waited for so long and nothing was folded: where each stands.

        Whether there is a record at all is to be looked up: what ends a transaction has an offset, too.
        """
        at = self._last[0]
        return {p: offset for p, (offset, since) in self._stands.items() if at - since >= seconds}

    def nothing_at(self, partitions: Collection[int]) -> Lag:
        """Take note that where these stand there is no record up to the end of the last look."""
        for partition in partitions:
            offset, _ = self._stands[partition]
            self._empty[partition] = (offset, self._last[2][partition])
        return self._judged()

    def _judged(self) -> Lag:
        at, offsets, ends, slack = self._last
        there = {p: self._past(p, offsets.get(p, 0)) for p in ends}
        waiting = {p: end - there[p] for p, end in ends.items() if end > there[p]}
        records = sum(waiting.values())
        if there != self._at or records <= slack:
            self._at, self._moved = there, at
        stands = {p: self._stands.get(p, (-1, at)) for p in waiting} if records > slack else {}
        self._stands = {
            p: (there[p], since if last == there[p] else at) for p, (last, since) in stands.items()
        }
        seconds = max((at - self._since(p, there[p], at) for p in waiting), default=0.0)
        rate, changes, dead = self._rated
        return Lag(
            records, seconds if records > slack else 0.0, at - self._moved, rate, changes, dead, dict(ends)
        )

    def _past(self, partition: int, offset: int) -> int:
        """Where a partition stands, after what is known to be no record."""
        first, last = self._empty.get(partition, (0, 0))
        return last if first <= offset <= last else offset

    def _remember(self, at: float, ends: Ends) -> None:
        if not self._ends or dict(self._ends[-1][1]) != dict(ends):
            self._ends.append((at, dict(ends)))
        while len(self._ends) > 1 and self._ends[1][0] < at - MEMORY:
            self._ends.popleft()

    def _since(self, partition: int, offset: int, at: float) -> float:
        """When the record at an offset was first seen to be there."""
        for when, ends in self._ends:
            if ends.get(partition, 0) > offset:
                return when
        return at

    def _rates(self, at: float, build: BuildInfo) -> tuple[float | None, float | None, int]:
        self._counts.append((at, build.records, build.seq, build.dead))
        while len(self._counts) > 2 and self._counts[1][0] <= at - OVER:
            self._counts.popleft()
        then, records, seq, dead = self._counts[0]
        if at <= then:
            return None, None, 0
        over = at - then
        # A build that begins anew counts from nothing again.
        return (
            max(0.0, (build.records - records) / over),
            max(0.0, (build.seq - seq) / over),
            max(0, build.dead - dead),
        )


def with_age(lag: Lag, oldest: Oldest, time: int) -> Lag:
    """Correct a lag by the record that is next: what was first seen late may have waited for long."""
    return replace(lag, seconds=max(lag.seconds, (time - oldest.time) / 1000))
