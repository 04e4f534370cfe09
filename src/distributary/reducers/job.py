"""A job keeps one build of one view running: claim, catch up, go live, and again after any failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from distributary.config import Config
from distributary.errors import BadView, DistributaryError, Superseded
from distributary.kafka import librdkafka
from distributary.kafka.topics import delete_topic, ensure_topic, get_topic
from distributary.model.build import Build, BuildStatus, Definition, Engine, JobState
from distributary.reducers import engine
from distributary.reducers.build_progress import DRIVER_ID, Progress
from distributary.reducers.confluent_framing import NOTHING
from distributary.reducers.failures import Failure, FailureCode, failure_of, read_report
from distributary.reducers.rekey import internal_topic
from distributary.reducers.schema_registry import Registry, SchemaBook, schemas_ahead
from distributary.reducers.spark_session import SlotPool
from distributary.reducers.start_offsets import StartOffsets, StartPlanner
from distributary.reducers.topic_identity import Truncated
from distributary.reducers.view_compiler import Compiler, Plan, check_definition
from distributary.reducers.view_run import JobContext, Run, ViewRun, choose_engine
from distributary.store.contract import WriterStore
from distributary.store.errors import BuildGone, TopicReplaced
from distributary.store.store_types import Claimed

log = logging.getLogger(__name__)

HEALTHY = 10.0
"""Seconds of service after which a failure counts as a first one."""
MAX_BACKOFF = 10.0


class Job(threading.Thread):
    """Runs one build until it is stopped, or cannot go on (``facts.reason`` says why)."""

    def __init__(
        self,
        *,
        spark: Any,
        config: Config,
        build: Build,
        definition: Definition,
        store: WriterStore,
        slots: SlotPool,
        on_superseded: Callable[[Superseded], None],
    ) -> None:
        super().__init__(name=f"job-{build.view}-{build.id}", daemon=True)
        self.build = build
        self.definition = definition
        self._spark = spark.newSession()
        self._config = config
        self._store = store
        self._slots = slots
        self._on_superseded = on_superseded
        self._stopping = threading.Event()
        self._admin = librdkafka.admin(config.kafka)
        self._mirror = librdkafka.consumer(config.kafka, f"distributary.{build.view}")
        self._progress = Progress(build, store, config.kafka, self._admin, self._mirror)
        self.facts = self._progress.facts
        self.settled = threading.Event()
        """Set once the view is served, or is known to take its time or not to come up at all."""
        self._context = JobContext(
            spark=self._spark,
            config=config,
            build=build,
            definition=definition,
            store=store,
            admin=self._admin,
            progress=self._progress,
            starts=StartPlanner(config.kafka, self._admin, store, build, definition),
            stopping=self._stopping,
            settled=self.settled,
        )
        self._missing_slots = 0  # that Real-Time Mode would need, while micro-batches run in its place
        self._warm = False  # whether tasks of this job have had heartbeats
        # Of a feed whose values name their schemas in Avro: what is known of them, and whether the last query
        # ended because it did not know one.
        self._book: SchemaBook | None = None
        self._known = NOTHING
        self._schemas_missing = False
        if definition.feed.format == "avro":
            self._book = SchemaBook(Registry(config), build.view, definition.feed.topic)

    def stop(self) -> None:
        """Request the end of the job; ``join`` waits for it."""
        self._stopping.set()

    def run(self) -> None:
        """Claim and run, and again after a failure: at once after a first one, then with backoff."""
        failures = 0
        while not self._stopping.is_set() and self.facts.status is not JobState.STOPPED:
            began = time.monotonic()
            try:
                if self._attempt():
                    continue
            except Exception as error:  # from handling a failure: nothing may end this thread
                log.warning("view %s: %s", self.build.view, error)
            failures = 1 if time.monotonic() - began > HEALTHY else failures + 1
            backoff = min(MAX_BACKOFF, 0.5 * 2 ** min(failures - 2, 10)) if failures > 1 else 0.0
            self._stopping.wait(backoff)
        self._mirror.close()

    # --- failures ---------------------------------------------------------------------------------------

    def _attempt(self) -> bool:
        """Run once; return whether to continue at once, and not as after a failure."""
        try:
            self._check_superseded()
            self._once()
            return True
        except BadView as error:
            self._set_state(JobState.STOPPED, error.message)
        except Superseded as error:
            self._set_state(JobState.STOPPED, error.message, store=False)
            self._on_superseded(error)
        except (TopicReplaced, Truncated) as error:
            self._replace_topic(error, self._progress.claim.generation)
            return True
        except BuildGone:
            self._stopping.wait(1.0)  # deleted, or displaced: the driver will stop this job
            return True
        except RedisError as error:
            self._set_state(JobState.WAITING, f"the store is not responding: {error}", store=False)
        except OSError as error:
            # Py4J's; the driver watches the JVM itself.
            self._set_state(JobState.WAITING, f"Spark is not responding: {error}", store=False)
        except (DistributaryError, KafkaException) as error:
            self._set_state(JobState.WAITING, str(error))
        except Exception as error:
            return self._recover(self._failure_of(error))
        return False

    def _failure_of(self, error: Exception) -> Failure:
        """Classify a failure; a task reports its own before Spark raises anything."""
        failure = failure_of(error)
        if failure.code is FailureCode.OTHER:
            info = self._store.build(self.build)
            report = read_report(info.fault, self._progress.claim.generation) if info is not None else None
            return report or failure
        return failure

    def _recover(self, failure: Failure) -> bool:
        """Do what a failed query needs; return whether to continue at once. Most only need a restart."""
        view, generation = self.build.view, self._progress.claim.generation
        match failure.code:
            case FailureCode.LEADER_CHANGED:
                # The restart begins with recognising the records at the marks (R8).
                log.info("view %s: restarts from its marks: %s", view, failure.message)
                return True
            case FailureCode.UNKNOWN_SCHEMA if self._request_schemas(failure.schemas):
                return True
            case FailureCode.NOT_OWNER if self._partitions_increased():
                # With more partitions the producers' keys moved: one row comes from two of them.
                self._store.update_build(self.build, rekey="1")
                self._rebuild("its topic has more partitions than before, and keys moved", generation)
            case FailureCode.NOT_OWNER:
                self._set_state(
                    JobState.STOPPED,
                    f"row-owner: {failure.message}, but came from another: the topic is not partitioned by "
                    "the view's key; correct partitioned_by in the feed, or remove it to re-key the view",
                )
            case FailureCode.SUSPECT:
                self._rebuild("the store's keys contradict each other", generation)
            case _:
                log.warning("view %s: the query failed and restarts: %s", view, failure.message)
                self.facts.reason = failure.message
                self.settled.set()
                self._store.update_build(self.build, failed=f"{self._store.now()} {failure.message}")
        return False

    def _set_state(self, state: JobState, reason: str, *, store: bool = True) -> None:
        if reason and reason != self.facts.reason:
            log.warning("view %s: %s", self.build.view, reason)
        self.facts.status, self.facts.reason = state, reason
        self.settled.set()
        if store:
            status = {"status": BuildStatus.STOPPED} if state is JobState.STOPPED else {}
            try:
                self._store.update_build(self.build, reason=reason, **status)
            except (RedisError, OSError):
                log.debug("cannot store the state", exc_info=True)

    def _request_schemas(self, ids: frozenset[int]) -> bool:
        """Request schemas from the registry before the next query; False when there are none to request."""
        new = ids - self._known.schemas.keys() - self._known.unusable.keys()
        if self._book is None or not new:
            return False
        log.info("view %s: restarts with the schemas %s", self.build.view, sorted(new))
        self._book.request(new)
        self._schemas_missing = True
        return True

    def _partitions_increased(self) -> bool:
        info = self._store.build(self.build)
        if info is None or info.rekey:
            return False
        return get_topic(self._admin, self.definition.feed.topic).partitions > info.first

    def _check_superseded(self) -> None:
        """Raise Superseded rather than take a build back from a newer driver (R1)."""
        if self._progress.claim.generation:
            info = self._store.build(self.build)
            if info is not None:
                self._progress.check_generation(info)

    def _replace_topic(self, error: Exception, generation: int) -> None:
        """Rebuild from a topic that is not the one that the build was made from (R8)."""
        self._rebuild(f"the topic was replaced, or lost records ({error})", generation)
        if self.facts.rekeyed:
            delete_topic(self._admin, internal_topic(self.build))

    def _rebuild(self, why: str, generation: int) -> None:
        log.warning("view %s: rebuilt, because %s", self.build.view, why)
        self._store.rebuild(self.build, generation, why)

    # --- one run ----------------------------------------------------------------------------------------

    def _once(self) -> None:
        """From claim to the end of one run."""
        began = time.monotonic()
        view, feed, events = self.definition
        planner = self._context.starts
        # 1. Check what can be checked without Kafka.
        check_definition(self._config, self.definition)
        if self._book is not None:
            self._known = self._book.read()
        plan = self._plan()
        # 2. The topics: created where the feed says so.
        if feed.create:
            ensure_topic(self._admin, feed.topic, feed.partitions)
        ensure_topic(self._admin, feed.dead_letter_topic, 1)
        source = get_topic(self._admin, feed.topic)
        event_topic = planner.event_topic(events) if events is not None else None
        before = self._store.build(self.build)
        forced = before is not None and before.rekey
        rekeyed = self.facts.rekeyed = view.needs_rekey(feed, source.partitions, forced=forced)
        # 3. Claim the build, which fences its last driver, and decide where to start.
        generation = before.generation if before is not None else 0
        try:
            topics = planner.topics(source, before, rekeyed=rekeyed)
            claimed = self._store.claim(self.build, source.id, source.partitions, DRIVER_ID)
            self._progress.claim = claimed.claim
            generation = claimed.claim.generation
            starts, rekey_starts = planner.starts(topics, claimed, before, rekeyed=rekeyed)
            event_feed, events_lost = planner.events(events, event_topic, begun=bool(claimed.marks))
        except (TopicReplaced, Truncated) as error:
            self._replace_topic(error, generation)
            return
        # 4. Schemas: those of the records that come next, so that the query does not end for each.
        if self._book is not None and self._schemas_missing:
            self._book.request(schemas_ahead(self._config.kafka, source.name, rekey_starts.starts))
            self._known, self._schemas_missing = self._book.read(), False
            plan = self._plan()
        # 5. Store where the view began, and what it has lost.
        self._pin(rekey_starts, claimed)
        info = self._store.build(self.build)
        live = info is not None and info.status == BuildStatus.LIVE
        lost = rekey_starts.incomplete or starts.incomplete or events_lost
        self._store.update_build(self.build, reason="", **({"incomplete": "1"} if lost else {}))
        # 6. Let Spark analyse the SQL now: an error then is the view's, and not that of a query.
        engine.analyse(self._spark, self._config, plan, source.name, rekey_starts.starts, view.name)
        log.info("view %s: compiled %.1f s after its job began", view.name, time.monotonic() - began)
        # 7. Run it: first a backlog that waits for re-keying, then everything.
        backlog = choose_engine(self._context, rekey_starts.waiting, live=live) is Engine.CATCH_UP
        only_rekey = rekeyed and backlog
        kind = Engine.CATCH_UP if only_rekey else choose_engine(self._context, starts.waiting, live=live)
        if kind is not Engine.CATCH_UP and not live and not starts.waiting:
            self._context.go_live()
            live = True
        if not only_rekey:
            self._missing_slots = 0
        if kind is Engine.REAL_TIME:
            kind = self._take_slots(topics.read.partitions * (2 if rekeyed else 1))
        run = ViewRun(
            self._context,
            Run(
                plan=plan,
                topics=topics,
                starts=starts,
                rekey_starts=rekey_starts,
                engine=kind,
                live=live,
                rekeyed=rekeyed,
                only_rekey=only_rekey,
                event_topic=event_topic,
                events=event_feed,
                unusable=self._known.unusable,
                warm=self._warm,
            ),
            self._restart_reason,
        )
        try:
            run.run()
        finally:
            self._warm = self._warm or run.all_alive
            self._slots.release(self.build)

    def _plan(self) -> Plan:
        return Compiler(self._spark).compile(self.definition.view, self.definition.feed, self._known)

    def _pin(self, starts: StartOffsets, claimed: Claimed) -> None:
        """Store where a view began: "now" would be another offset when its query restarts."""
        known = claimed.rekey_offsets if self.facts.rekeyed else claimed.marks
        new = {partition: at for partition, at in starts.starts.items() if partition not in known}
        if new and self.definition.view.start != "earliest":
            self._progress.move(new, rekey=self.facts.rekeyed)

    def _take_slots(self, needed: int) -> Engine:
        """Real-Time Mode needs a slot for every partition, for good; without them it is micro-batches."""
        if self._slots.take(self.build, needed):
            self.facts.engine_reason = ""
            return Engine.REAL_TIME
        self._missing_slots = needed
        self.facts.engine_reason = (
            f"Real-Time Mode needs {needed} slots, too few of {self._slots.total} are free (spark.slots)"
            + ("; events wait for the next record of their partition" if self.definition.events else "")
        )
        log.warning("view %s: runs in micro-batches: %s", self.build.view, self.facts.engine_reason)
        return Engine.MICRO_BATCH

    def _restart_reason(self) -> str:
        """Return why the queries should restart although nothing failed; "" for no reason."""
        if self._book is not None and self._book.refreshed():
            return "a schema that was missing is registered now"
        if self._missing_slots and self._slots.take(self.build, self._missing_slots):
            return "there are slots for Real-Time Mode now"
        return ""
