"""How far a build's queries are: what is folded, what waits, who is heard; and where that is shown."""

from __future__ import annotations

import json
import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from distributary.errors import Superseded
from distributary.model.position import Mark
from distributary.reduce import engine
from distributary.reduce.places import events_lag, folded, source_places
from distributary.store.base import BuildInfo, Fenced, WriterStore
from distributary.store.tail import Build

log = logging.getLogger(__name__)

SILENCE = 20.0
"""Seconds after which a task that says nothing is taken for dead."""

DRIVER = secrets.token_hex(8)
"""This process, among all that may claim a build."""


class ReducerFailed(Exception):
    """A reducer said why it ended, before Spark could."""


@dataclass
class Facts:
    """What a job knows of itself, for status."""

    build: str = ""
    engine: str = ""
    engine_reason: str = ""
    status: str = "starting"
    reason: str = ""
    rate: float = 0.0
    lag: int = 0
    lag_seconds: float = 0.0
    dead_letters: int = 0
    events_lag: int | None = None
    rekeyed: bool = False
    partitions: dict[int, dict[str, int]] = field(default_factory=dict)


class Progress:
    """Reads the store about one build and keeps ``facts`` true; ``mirror`` is a consumer to commit with."""

    def __init__(self, build: Build, store: WriterStore, mirror: Any) -> None:
        self.build = build
        self.facts = Facts(build=build.id)
        self.epoch = ""
        self.generation = 0
        self._store = store
        self._mirror = mirror
        self._records = (0.0, 0)

    def check_generation(self, info: BuildInfo) -> None:
        """Raise Superseded when another driver has claimed the build since."""
        # Nobody's name: the build was begun anew. Our own: a claim whose answer was lost.
        if info.generation > self.generation and info.driver not in ("", DRIVER):
            raise Superseded(f"view {self.build.view}: another driver has taken over")

    def advance(self, running: engine.Running, seen: int, *, hop: bool) -> int:
        """Store the ends of finished batches, so that filtered records count as read."""
        for progress in running.query.recentProgress:
            if progress["batchId"] <= seen or not progress["sources"]:
                continue
            end = progress["sources"][0]["endOffset"]
            if not end:
                continue
            if isinstance(end, str):
                end = json.loads(end)
            seen = progress["batchId"]
            ends = {int(p): int(at) for found in end.values() for p, at in found.items()}
            if not self._store.advance(self.build, self.epoch, self.generation, ends, hop=hop):
                info = self._store.build(self.build)
                if info is not None and info.generation == self.generation:
                    self.epoch = info.epoch
        return seen

    def heard(self, partitions: int) -> bool:
        """Whether every task of this generation has said something lately."""
        prefix = f"{self.build.view}/{self.build.id}/"
        said = [
            json.loads(beat.stats)
            for beat in self._store.beats()
            if beat.part == "reducer" and beat.id.startswith(prefix) and beat.age_ms < SILENCE * 1000
        ]
        return len([one for one in said if one["generation"] == self.generation]) >= partitions

    def marks(self) -> dict[int, Mark]:
        """How far each partition is folded, as the store says."""
        info = self._store.build(self.build)
        return dict(info.marks) if info is not None else {}

    def measure(
        self, starts: dict[int, int], ends: dict[int, int], events_end: int | None = None
    ) -> dict[int, int]:
        """Note lag, rate and dead letters; return the offset before which each source partition is folded."""
        info = self._store.build(self.build)
        if info is None:
            raise Fenced("the build is gone")
        self.check_generation(info)
        if info.fault.startswith(f"{self.generation} "):
            raise ReducerFailed(info.fault.partition(" ")[2])
        if self.facts.rekeyed:
            reached = source_places(info.memos, info.hops, starts)
        else:
            reached = {p: folded(info.marks.get(p), starts.get(p, 0)) for p in ends}
        self.facts.partitions = {
            p: {"offset": reached.get(p, 0), "end": end} for p, end in sorted(ends.items())
        }
        self.facts.lag = sum(max(0, end - reached.get(p, 0)) for p, end in ends.items())
        self.facts.events_lag = None if events_end is None else events_lag(info.memos, events_end)
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
            log.debug("positions not mirrored: %s", error)
