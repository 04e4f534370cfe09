"""How far a build's queries are: what is folded, what waits, and which tasks are alive."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from confluent_kafka import KafkaException, TopicPartition

from distributary.config.sections import Kafka
from distributary.errors import Superseded
from distributary.kafka import topic_offsets
from distributary.model.build import Build, Engine, JobState
from distributary.model.partition_state import folded_offset, source_offsets
from distributary.model.position import Fingerprint, Mark
from distributary.reducers import engine
from distributary.reducers.failures import Failure, FailureCode, TaskFailed, read_report
from distributary.reducers.start_offsets import events_lag
from distributary.reducers.topic_identity import Leaders, fingerprints_at
from distributary.store.contract import WriterStore
from distributary.store.errors import BuildGone
from distributary.store.store_types import BuildInfo, Claim

log = logging.getLogger(__name__)

TASK_SILENT = 8.0
"""Seconds without a heartbeat after which a task counts as dead."""

TASK_HUNG = 60.0
"""Seconds after which a task counts as hung whose loop does not turn although its process is alive."""

DRIVER_ID = secrets.token_hex(8)
"""The id of this process among all that may claim a build."""


@dataclass
class Facts:
    """What a job reports, for status."""

    build: str = ""
    engine: Engine | Literal[""] = ""
    engine_reason: str = ""
    status: JobState = JobState.STARTING
    reason: str = ""
    rate: float = 0.0
    lag: int = 0
    lag_seconds: float = 0.0
    dead_letters: int = 0
    events_lag: int | None = None
    rekeyed: bool = False
    partitions: dict[int, dict[str, int]] = field(default_factory=dict)


class Progress:
    """Reads the store about one build, and keeps ``facts`` up to date. ``mirror`` is a consumer to commit."""

    def __init__(self, build: Build, store: WriterStore, kafka: Kafka, admin: Any, mirror: Any) -> None:
        self.build = build
        self.facts = Facts(build=build.id)
        self.claim = Claim("", 0)
        self._store = store
        self._kafka = kafka
        self._admin = admin
        self._mirror = mirror
        self._records = (0.0, 0)  # when records were last counted, and how many they were

    def check_generation(self, info: BuildInfo) -> None:
        """Raise Superseded when another driver has claimed the build since."""
        # No name: the build was rebuilt. This one's: a claim whose response was lost.
        if info.generation > self.claim.generation and info.driver not in ("", DRIVER_ID):
            raise Superseded(f"view {self.build.view}: another driver has taken over")

    def advance(
        self, running: engine.RunningQuery, batch: int, read: Leaders, internal: Leaders | None
    ) -> int:
        """Store the ends of batches that finished after ``batch``, so that filtered records count as read.

        Returns the last of them. ``internal`` is the topic that a re-keying query writes to; None for a
        query of reducers. Raises LeaderChanged, and stores nothing, if a batch may have been read after an
        election.
        """
        ends: dict[int, int] = {}
        for progress in running.query.recentProgress:
            if progress["batchId"] <= batch or not progress["sources"]:
                continue
            end = progress["sources"][0]["endOffset"]
            if not end:
                continue
            if isinstance(end, str):
                end = json.loads(end)
            batch = progress["batchId"]
            ends = {int(p): int(at) for offsets in end.values() for p, at in offsets.items()}
        if ends:
            last, copied = self._last(read.topic, ends), {}
            read.confirm(self._admin)
            if internal is not None:
                copied = self._last(internal.topic, topic_offsets.end_offsets(self._admin, internal.topic))
                internal.confirm(self._admin)
            self.move(ends, rekey=internal is not None, last=last, copied=copied)
        return batch

    def _last(self, topic: str, ends: Mapping[int, int]) -> dict[int, Fingerprint]:
        """The fingerprints of the records just before the ends, where there are any."""
        found = fingerprints_at(self._kafka, topic, {p: [end - 1] for p, end in ends.items() if end > 0})
        return {partition: fingerprints[0] for partition, fingerprints in found.items()}

    def move(self, ends: Mapping[int, int], *, rekey: bool = False, **fingerprints: Any) -> None:
        """Store that partitions are read up to these offsets; raises when the claim is not valid any more.

        A store that restarted may have lost what an earlier batch wrote: the queries must restart from its
        marks before they write more (R2).
        """
        if not self._store.advance(self.build, self.claim, ends, rekey=rekey, **fingerprints):
            info = self._store.build(self.build)
            if info is None:
                raise BuildGone("the build is gone")
            self.check_generation(info)
            raise TaskFailed(
                Failure(FailureCode.OTHER, "the store restarted, failed over or was claimed again")
            )

    def silent(self, tasks: int) -> str:
        """Name the tasks of this claim, of so many, that have no heartbeat or hang; "" when all are alive."""
        prefix = f"{self.build.view}/{self.build.id}/"
        loop_ages: dict[str, float] = {}
        for heartbeat in self._store.heartbeats():
            if heartbeat.component == "reducer" and heartbeat.id.startswith(prefix):
                stats = json.loads(heartbeat.stats)
                if stats["generation"] == self.claim.generation and heartbeat.age_ms < TASK_SILENT * 1000:
                    loop_ages[heartbeat.id.removeprefix(prefix)] = stats["loop_age"]
        missing = [str(task) for task in range(tasks) if str(task) not in loop_ages]
        if missing:
            return f"no heartbeat for {TASK_SILENT:g} s from task(s) {', '.join(missing)} of {tasks}"
        hung = {task: age for task, age in loop_ages.items() if age > TASK_HUNG}
        return "; ".join(
            f"task {task} hangs: its loop has not turned for {hung[task]:.0f} s" for task in hung
        )

    def marks(self) -> dict[int, Mark]:
        """How far each partition is folded, from the store."""
        info = self._store.build(self.build)
        return dict(info.marks) if info is not None else {}

    def offsets(self) -> dict[int, int]:
        """The offset before which every record of each partition is folded, from the store."""
        return {partition: mark.offset for partition, mark in self.marks().items()}

    def measure(
        self, starts: dict[int, int], ends: dict[int, int], events_end: int | None = None
    ) -> dict[int, int]:
        """Measure lag, rate and dead letters; return the offset before which each partition is folded."""
        info = self._store.build(self.build)
        if info is None:
            raise BuildGone("the build is gone")
        self.check_generation(info)
        if failure := read_report(info.fault, self.claim.generation):
            raise TaskFailed(failure)
        if self.facts.rekeyed:
            reached = source_offsets(info.partition_states, info.rekey_offsets, starts)
        else:
            reached = {p: folded_offset(info.marks.get(p), starts.get(p, 0)) for p in ends}
        self.facts.partitions = {
            p: {"offset": reached.get(p, 0), "end": end} for p, end in sorted(ends.items())
        }
        self.facts.lag = sum(max(0, end - reached.get(p, 0)) for p, end in ends.items())
        self.facts.events_lag = None if events_end is None else events_lag(info.partition_states, events_end)
        self.facts.dead_letters = info.dead
        now = time.monotonic()
        then, before = self._records
        if then and now > then:
            self.facts.rate = round(max(0.0, (info.records - before) / (now - then)), 1)
        self._records = (now, info.records)
        waits = self.facts.lag / self.facts.rate if self.facts.rate else float(self.facts.lag > 0)
        self.facts.lag_seconds = round(waits, 2)
        return reached

    def mirror(self, topic: str, reached: dict[int, int]) -> None:
        """Show the view's positions to every Kafka tool, as a consumer group of its name."""
        offsets = [TopicPartition(topic, p, at) for p, at in reached.items()]
        try:
            self._mirror.commit(offsets=offsets, asynchronous=True)
            self._mirror.poll(0)
        except KafkaException as error:
            log.debug("cannot mirror positions: %s", error)
