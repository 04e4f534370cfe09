"""A job keeps one build of one view running: claim, catch up, go live, and again after any failure."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from redis.exceptions import RedisError

from distributary.config import Config
from distributary.errors import BadView, DistributaryError
from distributary.kafka import client, topics
from distributary.model.definition import Definition
from distributary.model.position import Mark
from distributary.reduce import engine
from distributary.reduce.places import Truncated, folded, lag, places
from distributary.reduce.rules import rule_of
from distributary.reduce.sql import Compiler
from distributary.reduce.worker import Task, Worker
from distributary.store.base import Fenced, TopicReplaced, WriterStore
from distributary.store.tail import Build

log = logging.getLogger(__name__)

LOOK_TOPIC = 5.0
MIRROR = 2.0


class Superseded(DistributaryError):
    """A newer driver has taken this view over."""

    code = "superseded"


@dataclass
class Facts:
    """What a job knows of itself, for status."""

    build: str = ""
    engine: str = ""
    status: str = "starting"
    reason: str = ""
    rate: float = 0.0
    lag: int = 0
    lag_seconds: float = 0.0
    dead_letters: int = 0
    rekeyed: bool = False
    partitions: dict[int, dict[str, int]] = field(default_factory=dict)


class Job(threading.Thread):
    """Runs one build until it is told to stop, or must (``facts.reason`` says why)."""

    def __init__(
        self,
        spark: Any,
        config: Config,
        build: Build,
        definition: Definition,
        store: WriterStore,
        on_superseded: Callable[[Superseded], None],
    ) -> None:
        super().__init__(name=f"job-{build.view}-{build.id}", daemon=True)
        self.build = build
        self.definition = definition
        self.facts = Facts(build=build.id)
        self._spark = spark.newSession()
        self._config = config
        self._store = store
        self._on_superseded = on_superseded
        self._stopping = threading.Event()
        self._admin = client.admin(config.kafka)
        self._mirror = client.consumer(config.kafka, f"distributary.{build.view}")
        self._epoch = ""
        self._generation = 0
        self._records = (0.0, 0)

    def stop(self) -> None:
        """Ask the job to end; ``join`` waits for it."""
        self._stopping.set()

    def run(self) -> None:
        """Claim and run, and again after a failure, with back-off."""
        delay = 0.5
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._once()
                continue
            except BadView as error:
                self._say("stopped", error.message)
                return
            except Superseded as error:
                self._say("stopped", error.message, note=False)
                self._on_superseded(error)
                return
            except (RedisError, OSError) as error:
                self._say("waiting", f"the store does not answer: {error}", note=False)
            except (DistributaryError, KafkaException) as error:
                self._say("waiting", str(error))
            except Exception as error:
                self._failed(error)
                if self.facts.status == "stopped":
                    return
            delay = 0.5 if time.monotonic() - began > 60 else min(10.0, delay * 2)
            self._stopping.wait(delay)
        self._mirror.close()

    def _say(self, status: str, reason: str, *, note: bool = True) -> None:
        if reason and reason != self.facts.reason:
            log.warning("view %s: %s", self.build.view, reason)
        self.facts.status, self.facts.reason = status, reason
        if note:
            try:
                self._store.note(
                    self.build, reason=reason, **({"status": status} if status == "stopped" else {})
                )
            except (RedisError, OSError):
                log.debug("the store does not take the note", exc_info=True)

    def _failed(self, error: Exception) -> None:
        """Read what a failed query says; most failures are cured by starting again from the store."""
        text = str(error)
        if "NotOwner" in text:
            said = text.rpartition("NotOwner:")[2].split("\n")[0].strip()
            self._say(
                "stopped",
                f"row-owner: {said}, but came from another: the topic is not partitioned by the view's key; "
                "set partitioned_by in the feed, or let the view be re-keyed",
            )
        elif "Suspect" in text:
            self._rebuild("the store's keys contradict each other")
        elif "FENCED generation" in text and self._newer():
            superseded = Superseded(f"view {self.build.view}: another driver has taken over")
            self._say("stopped", superseded.message, note=False)
            self._on_superseded(superseded)
        else:
            log.warning("view %s: the query failed and starts again: %s", self.build.view, _last_line(text))
            self.facts.reason = _last_line(text)

    def _newer(self) -> bool:
        info = self._store.build(self.build)
        return info is not None and info.generation > self._generation

    def _rebuild(self, why: str) -> None:
        log.warning("view %s: rebuilt, because %s", self.build.view, why)
        self._store.rebuild(self.build, why)

    def _once(self) -> None:
        """From claim to the end of one query."""
        view, feed = self.definition
        try:
            rule_of(view)
        except ValueError as error:
            raise BadView(f"view {view.name}: {error}") from None
        plan = Compiler(self._spark).compile(view, feed)
        if feed.create:
            topics.ensure_topic(self._admin, feed.topic, feed.partitions)
        topics.ensure_topic(self._admin, feed.dead_letter_topic, 1)
        topic = topics.get_topic(self._admin, feed.topic)
        earliest = topics.earliest_offsets(self._admin, feed.topic)
        ends = topics.end_offsets(self._admin, feed.topic)
        try:
            claimed = self._store.claim(self.build, topic.id, topic.partitions)
            found = places(
                view, claimed.marks, earliest, ends, self._first(earliest, ends, bool(claimed.marks))
            )
        except (TopicReplaced, Truncated) as error:
            self._rebuild(f"the topic was replaced ({error})")
            return
        self._epoch, self._generation = claimed.epoch, claimed.generation
        info = self._store.build(self.build)
        live = info is not None and info.status == "live"
        self._store.note(self.build, reason="", **({"incomplete": "1"} if found.incomplete else {}))
        waiting = lag(claimed.marks, found.starts, ends)
        kind = self._engine(waiting, live)
        self._compile(topic.name, found.starts, plan)
        if kind != "catch-up" and not live and not waiting:
            self._go_live()
            live = True
        task = Task(
            view,
            feed,
            self.build,
            claimed.generation,
            self._config.store.url,
            self._config.store.log_keep,
            self._config.kafka,
            topic.name,
            plan.projection,
            quiet=not live,
        )
        records = engine.frame(self._spark, self._config, topic.name, found.starts, plan, kind)
        name = f"{self.build.view}-{self.build.id}-{claimed.generation}-{kind}"
        running = engine.start(self._spark, self._config, records, Worker(task), kind, name)
        try:
            self._watch(running, topic, found.starts, live)
        finally:
            running.stop()

    def _compile(self, topic: str, starts: dict[int, int], plan: Any) -> None:
        """Let Spark analyse the SQL now, so that what it says is said of the view and not of a query."""
        from pyspark.errors import PySparkException

        try:
            engine.frame(self._spark, self._config, topic, starts, plan, "catch-up")
        except PySparkException as error:
            message = str(error).split("\n'", 1)[0].split(";\n", 1)[0].strip()
            raise BadView(f"view {self.build.view}: {message}") from None

    def _engine(self, waiting: int, live: bool) -> engine.Engine:
        chosen = self.definition.view.engine
        if chosen == "auto":
            chosen = self._config.spark.engine
        if chosen == "microbatch":
            return "microbatch"
        if waiting > self._config.spark.catchup_lag or (waiting and not live):
            return "catch-up"
        return "realtime"

    def _first(self, earliest: dict[int, int], ends: dict[int, int], begun: bool) -> dict[int, int]:
        """Where a partition without a mark starts; one that came later is read whole."""
        start = self.definition.view.start
        if start == "earliest" or begun:
            return earliest
        if start == "now":
            return ends
        from datetime import datetime

        moment = int(datetime.fromisoformat(start.replace("Z", "+00:00")).timestamp() * 1000)
        return topics.offsets_at(self._admin, self.definition.feed.topic, moment)

    def _go_live(self) -> None:
        old = self._store.go_live(self.build)
        log.info("view %s: build %s is live", self.build.view, self.build.id)
        if old:
            self._store.drop(Build(self.build.view, old))

    def _watch(
        self, running: engine.Running, topic: topics.Topic, starts: dict[int, int], live: bool
    ) -> None:
        """Follow a running query: progress, lag, new partitions; return when it should start anew."""
        self.facts.engine, self.facts.status, self.facts.reason = (
            running.engine,
            "live" if live else "building",
            "",
        )
        looked = mirrored = time.monotonic()
        seen_batch = -1
        last_ends: dict[int, int] = {}
        while not self._stopping.is_set():
            done = running.query.awaitTermination(1)
            seen_batch = self._advance(running, seen_batch)
            now = time.monotonic()
            ends = topics.end_offsets(self._admin, topic.name)
            if ends != last_ends:
                self._store.fresh(self.build.view)
                last_ends = ends
            marks = self._measure(starts, ends)
            if now - mirrored > MIRROR:
                mirrored = now
                self._mirror_offsets(topic.name, marks, starts)
            if done:
                if (
                    running.engine == "catch-up"
                    and not live
                    and self.facts.lag <= self._config.spark.catchup_lag
                ):
                    self._go_live()
                return
            if now - looked > LOOK_TOPIC:
                looked = now
                found = topics.get_topic(self._admin, topic.name)
                if found != topic:
                    log.info("view %s: topic %s changed: %s", self.build.view, topic.name, found)
                    return
            if running.engine == "microbatch" and not live and not self.facts.lag:
                self._go_live()
                return

    def _advance(self, running: engine.Running, seen: int) -> int:
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
            if not self._store.advance(self.build, self._epoch, self._generation, ends):
                info = self._store.build(self.build)
                if info is not None and info.generation == self._generation:
                    self._epoch = info.epoch
        return seen

    def _measure(self, starts: dict[int, int], ends: dict[int, int]) -> dict[int, Mark]:
        info = self._store.build(self.build)
        if info is None:
            raise Fenced("the build is gone")
        marks = dict(info.marks)
        self.facts.partitions = {
            p: {"offset": folded(marks.get(p), starts.get(p, 0)), "end": end}
            for p, end in sorted(ends.items())
        }
        self.facts.lag = lag(marks, starts, ends)
        self.facts.dead_letters = info.dead
        now = time.monotonic()
        then, before = self._records
        if then and now > then:
            self.facts.rate = max(0.0, (info.records - before) / (now - then))
        self._records = (now, info.records)
        waits = self.facts.lag / self.facts.rate if self.facts.rate else float(self.facts.lag > 0)
        self.facts.lag_seconds = round(waits, 2)
        return marks

    def _mirror_offsets(self, topic: str, marks: dict[int, Mark], starts: dict[int, int]) -> None:
        """Show the view's positions to every Kafka tool, as a consumer group of its name."""
        offsets = [TopicPartition(topic, p, folded(marks.get(p), at)) for p, at in starts.items()]
        try:
            self._mirror.commit(offsets=offsets, asynchronous=True)
            self._mirror.poll(0)
        except KafkaException as error:
            log.debug("positions not mirrored: %s", error)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if "Error:" in line or "Exception:" in line or "StoreWentBack" in line:
            return line[:300]
    return lines[-1][:300] if lines else ""
