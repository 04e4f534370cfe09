"""One run of a view's queries on Spark: start them, watch them, stop them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from distributary.config import Config
from distributary.kafka import topic_offsets
from distributary.kafka.topics import Topic, get_topic
from distributary.model.build import Build, Definition, Engine, JobState
from distributary.model.position import CHECKSUM_SQL
from distributary.reducers import engine
from distributary.reducers.build_progress import TASK_SILENT, Progress
from distributary.reducers.event_reader import EventFeed
from distributary.reducers.failures import Failure, FailureCode, TaskFailed
from distributary.reducers.idle_ticker import IdleTicker
from distributary.reducers.record_codec import REKEYED_SQL
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.reducers.rekey import Clearing, Topics
from distributary.reducers.spark_task import Worker
from distributary.reducers.start_offsets import StartOffsets, StartPlanner
from distributary.reducers.task_contract import Task
from distributary.reducers.view_compiler import Plan
from distributary.store.contract import WriterStore

log = logging.getLogger(__name__)

CHECK_TOPICS = 5.0
MIRROR = 2.0
CHECKPOINT_MS, CHECKPOINTS = 10_000, 10_000
"""How often a checkpoint of the view is stored, and how many of them: more than a day of checkpoints."""
STARTING = 3.0
"""Seconds in which a query's tasks should have their workers."""
FIRST_HEARTBEAT, FIRST_START = 20.0, 60.0
"""Seconds that tasks have for their first heartbeat; the first ones of a process also start Python."""


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """What a job shares with its runs."""

    spark: Any
    config: Config
    build: Build
    definition: Definition
    store: WriterStore
    admin: Any
    progress: Progress
    starts: StartPlanner
    stopping: threading.Event
    """Set when the job must end."""
    settled: threading.Event
    """Set once the view is served, or is known to take its time or not to come up at all."""

    def go_live(self, *, fence: bool = False) -> None:
        """Serve the build. ``fence``: tasks that fold without reporting changes may not write any more."""
        self.store.go_live(self.build, self.progress.claim.generation, fence=fence)
        log.info("view %s: build %s is live", self.build.view, self.build.id)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is run: decided before it starts, and true until it ends."""

    plan: Plan
    topics: Topics
    starts: StartOffsets
    """Where reducers start in the topic that they read."""
    rekey_starts: StartOffsets
    """Where the source is read from; the same, unless the view is re-keyed."""
    engine: Engine
    live: bool
    rekeyed: bool
    only_rekey: bool = False
    """Only catch up with re-keying; reducers follow in the next run."""
    event_topic: Topic | None = None
    events: EventFeed | None = None
    unusable: Mapping[int, str] = field(default_factory=dict)
    """Why records of some schemas cannot be read."""
    warm: bool = False
    """Whether tasks of this job have had heartbeats before: Python is started."""


class ViewRun:
    """Starts a view's queries and watches them until one ends or they must start again.

    ``restart_reason`` returns why the job requires a new run, or ""; it is called every few seconds.
    """

    def __init__(self, context: JobContext, run: Run, restart_reason: Callable[[], str]) -> None:
        self._context = context
        self._run = run
        self._restart_reason = restart_reason
        self._progress = context.progress
        self._view = context.definition.view
        self._queries: list[engine.RunningQuery] = []
        self._rekey_engine = self._choose_rekey_engine()
        # By query: the last batch whose end is stored.
        self._batches: list[int] = []
        self._source_ends: dict[int, int] = {}
        self._assigned = False  # whether the tasks of the current batch know their partitions
        self.all_alive = run.engine is not Engine.REAL_TIME
        """Whether all tasks have had heartbeats; those of a batch are not expected to."""

    def run(self) -> None:
        """Start the queries and watch them; stop all of them when one ends."""
        began = time.monotonic()
        try:
            self._start()
            names = ", ".join(one.query.name for one in self._queries)
            log.info("view %s: started as %s", self._view.name, names)
            self._watch()
        finally:
            if not self._run.only_rekey:
                self._wait_for_workers(began + STARTING)
            for one in self._queries:
                one.stop()

    # --- starting ---------------------------------------------------------------------------------------

    def _choose_rekey_engine(self) -> Engine:
        run = self._run
        if not run.rekeyed:
            return Engine.REAL_TIME
        if run.only_rekey or run.engine is Engine.MICRO_BATCH:
            return run.engine
        return choose_engine(self._context, run.rekey_starts.waiting, live=True)

    def _start(self) -> None:
        context, run = self._context, self._run
        config, build, generation = context.config, context.build, self._progress.claim.generation
        name = f"{build.view}-{build.id}-{generation}-{run.engine}"
        # 1. Re-key: from the source to the internal topic.
        if run.rekeyed:
            source = engine.read(
                context.spark, config, run.topics.source.name, run.rekey_starts.starts, self._rekey_engine
            )
            prepared = engine.prepare(source, run.plan, self._rekey_engine)
            self._queries.append(
                engine.rekey(
                    config, prepared, generation, run.topics.read.name, self._rekey_engine, f"{name}-rekey"
                )
            )
        # 2. Reduce: from the source, or the internal topic, to the store.
        if not run.only_rekey:
            records = engine.read(context.spark, config, run.topics.read.name, run.starts.starts, run.engine)
            packed = REKEYED_SQL
            if run.rekeyed:
                records = records.selectExpr("partition", "offset", "value", CHECKSUM_SQL)
            else:
                records, packed = engine.prepare(records, run.plan, run.engine), "packed"
            records = engine.to_python(records, packed, config, run.engine)
            worker = Worker(self._task())
            self._queries.append(engine.reduce(context.spark, config, records, worker, run.engine, name))
        self._batches = [-1 for _ in self._queries]

    def _task(self) -> Task:
        context, run = self._context, self._run
        view, feed, _ = context.definition
        return Task(
            view=view,
            feed=feed,
            build=context.build,
            claim=self._progress.claim,
            store_url=context.config.store.address_of(view.name),
            log_length=context.config.store.log_length,
            kafka=context.config.kafka,
            topic=feed.topic,
            projection=run.plan.projection,
            leaders=run.topics.read_leaders,
            # In batches Spark's consumer continues where the last one ended, whatever was elected meanwhile.
            source_leaders=(
                run.topics.source_leaders if self._rekey_engine is not Engine.REAL_TIME else None
            ),
            engine=run.engine,
            quiet=not run.live,
            rekeyed=run.rekeyed,
            events=run.events,
            unusable=run.unusable,
        )

    def _wait_for_workers(self, deadline: float) -> None:
        """Let tasks that are starting get their workers.

        When a task is interrupted while it waits for a worker, Spark takes its Python daemon for dead and
        ends it (decision 17).
        """
        try:
            while time.monotonic() < deadline and all(one.query.isActive for one in self._queries):
                if self._run.engine is not Engine.REAL_TIME and not self._is_busy():
                    return
                if not self._progress.silent(self._run.topics.read.partitions):
                    return
                time.sleep(0.05)
        except Exception as error:
            log.debug("view %s: not waiting for its tasks: %s", self._view.name, error)

    # --- watching ---------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Follow the queries; return when they have ended or must start again, raise what made them fail."""
        context, run, facts = self._context, self._run, self._progress.facts
        facts.engine, facts.reason = run.engine, ""
        facts.status = JobState.LIVE if run.live else JobState.BUILDING
        began = checked = mirrored = time.monotonic()
        clearing = Clearing(began)
        ticker = self._idle_ticker()
        context.store.save_checkpoint(context.build, CHECKPOINT_MS, CHECKPOINTS)
        while not context.stopping.is_set():
            # 1. Wait a moment; all tasks that have a heartbeat serve the view.
            if run.engine is Engine.REAL_TIME and not self._assigned:
                self._assign_partitions()
            self.all_alive = self.all_alive or not self._progress.silent(run.topics.read.partitions)
            if self.all_alive:
                context.settled.set()
            pause = 1.0 if self.all_alive else 0.1
            done = [one.query.awaitTermination(pause / len(self._queries)) for one in self._queries]
            # 2. Store the ends of finished batches; where none runs, let time pass.
            idle = not self._store_batch_ends()
            if ticker is not None and idle and not self._is_busy():
                ticker.step()
            now = time.monotonic()
            # 3. Look for elections, and measure.
            ends, events_end = self._read_ends()
            self._progress.move({})  # notices another run of the store also while nothing is written
            folded_to = self._progress.measure(run.rekey_starts.starts, ends, events_end)
            if now - mirrored > MIRROR:
                mirrored = now
                self._progress.mirror(run.topics.source.name, folded_to)
            if run.rekeyed:
                due = clearing.due(now, self._progress.offsets)
                topic_offsets.delete_records_before(context.admin, run.topics.read.name, due)
            # 4. A query that ended: the build goes live when it has caught up.
            if any(done):
                if run.engine is Engine.CATCH_UP and not run.only_rekey and not run.live and done[-1]:
                    self._go_live_if_caught_up()
                return
            # 5. Changes that need a new run.
            if now - checked > CHECK_TOPICS:
                checked = now
                context.store.save_checkpoint(context.build, CHECKPOINT_MS, CHECKPOINTS)
                if reason := self._changed_topic() or self._restart_reason():
                    log.info("view %s: restarts: %s", self._view.name, reason)
                    return
            # 6. A task without a heartbeat: Spark would notice only with the next record.
            patience = FIRST_HEARTBEAT if run.warm else FIRST_START
            if run.engine is Engine.REAL_TIME and now - began > (TASK_SILENT if self.all_alive else patience):
                self._check_heartbeats()
            # 7. Micro-batches that have no backlog left go live by a new run.
            if run.engine is Engine.MICRO_BATCH and not run.live and not facts.lag:
                context.go_live(fence=True)
                return

    def _idle_ticker(self) -> IdleTicker | None:
        """Return a ticker for micro-batches, between which there is no task; not for a view with events."""
        context, run = self._context, self._run
        if run.engine is not Engine.MICRO_BATCH or not run.live or context.definition.events is not None:
            return None

        def create(partition: int) -> Reducer:
            options = ReducerOptions(
                view=self._view,
                rule=rule_of(self._view),
                write_dead_letters=lambda letters: None,  # nothing is folded here
            )
            return Reducer(context.store, context.build, partition, self._progress.claim, options)

        return IdleTicker(context.store, context.build, self._view, run.topics.read.partitions, create)

    def _assign_partitions(self) -> None:
        """Store which partition each task reads: one without records cannot know."""
        found = engine.partitions_read(self._queries[-1].query)
        if found:
            self._context.store.assign(self._context.build, self._progress.claim, found)
        self._assigned = bool(found)

    def _store_batch_ends(self) -> bool:
        """Store the ends of batches that finished; return whether any query had one."""
        topics, before = self._run.topics, list(self._batches)
        for at, one in enumerate(self._queries):
            if self._run.rekeyed and at == 0:
                read, internal = topics.source_leaders, topics.read_leaders
            else:
                read, internal = topics.read_leaders, None
            self._batches[at] = self._progress.advance(one, before[at], read, internal)
        if self._batches[-1] != before[-1]:
            self._assigned = False  # another batch was planned
        return self._batches != before

    def _read_ends(self) -> tuple[dict[int, int], int | None]:
        """Return the ends of the source and of the event feed; raises LeaderChanged after an election."""
        context, run = self._context, self._run
        ends, epochs = topic_offsets.end_offsets_and_epochs(context.admin, run.topics.source.name)
        run.topics.source_leaders.compare(epochs)
        if run.rekeyed:
            run.topics.read_leaders.confirm(context.admin)
        if ends != self._source_ends:
            context.store.mark_source_active(context.build.view)
            self._source_ends = ends
        if run.event_topic is None or run.events is None:
            return ends, None
        event_ends, epochs = topic_offsets.end_offsets_and_epochs(context.admin, run.event_topic.name)
        run.events.leaders.compare(epochs)
        return ends, event_ends[0]

    def _go_live_if_caught_up(self) -> None:
        marks, config = self._progress.marks(), self._context.config
        left = self._context.starts.topic(self._run.topics.read, marks, internal=self._run.rekeyed).waiting
        if left <= config.spark.catchup_lag:
            self._context.go_live(fence=True)

    def _changed_topic(self) -> str:
        """Return which topic is not as it was when the run began; "" for none."""
        for topic in (self._run.topics.source, self._run.event_topic):
            if topic is not None and (found := get_topic(self._context.admin, topic.name)) != topic:
                return f"the topic {topic.name} changed: {found}"
        return ""

    def _check_heartbeats(self) -> None:
        """Raise TaskFailed unless every task of the batch is alive."""
        if silent := self._progress.silent(self._run.topics.read.partitions):
            raise TaskFailed(Failure(FailureCode.OTHER, silent))

    def _is_busy(self) -> bool:
        return any(one.query.status["isDataAvailable"] for one in self._queries)


def choose_engine(context: JobContext, waiting: int, *, live: bool) -> Engine:
    """Choose how to run: as configured, and in a backlog's own way while records wait."""
    chosen = context.definition.view.engine
    if chosen == "auto":
        chosen = context.config.spark.engine
    if chosen == Engine.MICRO_BATCH:
        return Engine.MICRO_BATCH
    if waiting > context.config.spark.catchup_lag or (waiting and not live):
        return Engine.CATCH_UP
    return Engine.REAL_TIME
