"""A job keeps one build of one view running: claim, catch up, go live, and again after any failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from distributary.config import Config
from distributary.errors import BadView, DistributaryError, Superseded
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.topics import (
    Topic,
    delete_topic,
    ensure_topic,
    find_topic,
    get_topic,
    is_compacted,
    replace_topic,
)
from distributary.model.build import Build, BuildStatus, Definition, Engine, JobState
from distributary.model.feed import Feed
from distributary.model.partition_state import read_event_progress, source_fingerprints
from distributary.model.position import CHECKSUM_SQL, Mark
from distributary.reducers import engine
from distributary.reducers.build_progress import DRIVER, SILENCE, Progress, ReducerFailed
from distributary.reducers.confluent_framing import NOTHING, unknown_ids
from distributary.reducers.event_fold import event_rule_of
from distributary.reducers.event_reader import EventFeed
from distributary.reducers.idle_ticker import Timekeeper
from distributary.reducers.record_codec import REKEYED_SQL
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer
from distributary.reducers.rekey import Clearing, Topics, internal_topic
from distributary.reducers.schema_registry import Registry, SchemaBook, schemas_ahead
from distributary.reducers.spark_session import SlotPool
from distributary.reducers.spark_task import Task, Worker
from distributary.reducers.start_offsets import (
    StartOffsets,
    Truncated,
    event_start_offsets,
    marks_of,
    start_offsets,
)
from distributary.reducers.topic_identity import (
    Expected,
    LeaderChanged,
    Leaders,
    judge,
    read_checksums,
    to_look_at,
)
from distributary.reducers.view_compiler import Compiler, Plan
from distributary.store.contract import WriterStore
from distributary.store.errors import BuildGone, TopicReplaced
from distributary.store.store_types import BuildInfo

log = logging.getLogger(__name__)

LOOK_TOPIC = 5.0
MIRROR = 2.0
PLACE_MS, PLACES = 10_000, 10_000
"""How often it is noted where the view stands, and how many notes are kept: a good day of them."""
INTERNAL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of the topic of re-keyed records: what is folded we delete ourselves, and nothing else goes."""
STARTING = 3.0
"""Seconds in which a query's tasks should have their workers."""
HEALTHY = 10.0
"""Seconds of service after which a failure counts as a first one."""
FIRST_WORD, FIRST_START = 20.0, 60.0
"""Seconds that tasks have for their first heartbeat; the first ones of a process start Python, too."""


class Job(threading.Thread):
    """Runs one build until it is told to stop, or must (``facts.reason`` says why)."""

    def __init__(
        self,
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
        self._lacks = 0  # slots that Real-Time Mode would need, while it is not for want of them
        self._stopping = threading.Event()
        self._admin = librdkafka.admin(config.kafka)
        self._mirror = librdkafka.consumer(config.kafka, f"distributary.{build.view}")
        self._progress = Progress(build, store, config.kafka, self._admin, self._mirror)
        self._events_topic: Topic | None = None
        self._events: EventFeed | None = None
        self._book: SchemaBook | None = None
        self._known = NOTHING
        self._begun = False  # whether tasks of this job were ever heard
        self._asking = False  # whether the last query ended for want of schemas
        if definition.feed.format == "avro":
            self._book = SchemaBook(Registry(config), build.view, definition.feed.topic)
        self.facts = self._progress.facts
        self.settled = threading.Event()
        """Set once the view is served, or is known to take its time or not to come up at all."""

    def stop(self) -> None:
        """Ask the job to end; ``join`` waits for it."""
        self._stopping.set()

    def run(self) -> None:
        """Claim and run, and again after a failure: at once after a first one, then with back-off."""
        failures = 0
        while not self._stopping.is_set() and self.facts.status is not JobState.STOPPED:
            began = time.monotonic()
            try:
                if self._attempt():
                    continue
            except Exception as error:  # of what is done after a failure: nothing may end this thread
                log.warning("view %s: %s", self.build.view, error)
            failures = 1 if time.monotonic() - began > HEALTHY else failures + 1
            self._stopping.wait(min(10.0, 0.5 * 2 ** min(failures - 2, 10)) if failures > 1 else 0.0)
        self._mirror.close()

    def _attempt(self) -> bool:
        """Run once; return whether to go on at once, and not as after a failure."""
        try:
            self._stand_down()
            self._once()
            return True
        except BadView as error:
            self._say(JobState.STOPPED, error.message)
        except Superseded as error:
            self._say(JobState.STOPPED, error.message, note=False)
            self._on_superseded(error)
        except (TopicReplaced, Truncated) as error:
            self._replace(error)
            return True
        except LeaderChanged as error:
            self._elected(str(error))
            return True
        except BuildGone:
            self._stopping.wait(1.0)  # deleted, or displaced: the driver will stop this job
            return True
        except RedisError as error:
            self._say(JobState.WAITING, f"the store does not answer: {error}", note=False)
        except OSError as error:
            # Py4J's; the driver looks after the JVM itself.
            self._say(JobState.WAITING, f"Spark does not answer: {error}", note=False)
        except (DistributaryError, KafkaException) as error:
            self._say(JobState.WAITING, str(error))
        except Exception as error:
            if self._asks(str(error)):
                return True
            if "LeaderChanged" in str(error):
                self._elected(_gist(str(error).rpartition("LeaderChanged:")[2]))
                return True
            self._failed(error)
        return False

    def _say(self, status: JobState, reason: str, *, note: bool = True) -> None:
        if reason and reason != self.facts.reason:
            log.warning("view %s: %s", self.build.view, reason)
        self.facts.status, self.facts.reason = status, reason
        self.settled.set()
        if note:
            try:
                self._store.update_build(
                    self.build, reason=reason, **({"status": status} if status is JobState.STOPPED else {})
                )
            except (RedisError, OSError):
                log.debug("the store does not take the note", exc_info=True)

    def _failed(self, error: Exception) -> None:
        """Read what a failed query says; most failures are cured by starting again from the store."""
        text, generation = str(error), self._progress.claim.generation
        if "NotOwner" in text and self._grown():
            # With more partitions the producers' keys moved: one row comes from two of them.
            self._store.update_build(self.build, rekey="1")
            self._rebuild("its topic has more partitions than before, and keys moved", generation)
        elif "NotOwner" in text:
            said = text.rpartition("NotOwner:")[2].split("\n")[0].strip()
            self._say(
                JobState.STOPPED,
                f"row-owner: {said}, but came from another: the topic is not partitioned by the view's key; "
                "set partitioned_by in the feed, or let the view be re-keyed",
            )
        elif "Suspect" in text:
            self._rebuild("the store's keys contradict each other", generation)
        else:
            log.warning("view %s: the query failed and starts again: %s", self.build.view, _gist(text))
            self.facts.reason = _gist(text)
            self.settled.set()
            self._store.update_build(self.build, failed=f"{self._store.now()} {_gist(text)}")

    def _elected(self, what: str) -> None:
        """Start again after an election, which begins with recognising the records at the marks (R8)."""
        log.info("view %s: starts again from its marks: %s", self.build.view, what)

    def _asks(self, text: str) -> bool:
        """Whether a query ended for want of schemas: it is planned anew, after the registry was asked."""
        new = unknown_ids(text) - self._known.schemas.keys() - self._known.unusable.keys()
        if self._book is None or not new:
            return False
        log.info("view %s: starts anew, with the schemas %s", self.build.view, sorted(new))
        self._book.want(new)
        self._asking = True
        return True

    def _grown(self) -> bool:
        info = self._store.build(self.build)
        if info is None or info.rekey:
            return False
        return get_topic(self._admin, self.definition.feed.topic).partitions > info.first

    def _stand_down(self) -> None:
        """Raise Superseded rather than take a build back from a newer driver (R1)."""
        if self._progress.claim.generation:
            info = self._store.build(self.build)
            if info is not None:
                self._progress.check_generation(info)

    def _replace(self, error: Exception, generation: int | None = None) -> None:
        """Begin anew from a topic that is not the one that the build was made from (R8)."""
        generation = self._progress.claim.generation if generation is None else generation
        self._rebuild(f"the topic was replaced, or lost records ({error})", generation)
        if self.facts.rekeyed:
            delete_topic(self._admin, internal_topic(self.build))

    def _rebuild(self, why: str, generation: int) -> None:
        log.warning("view %s: rebuilt, because %s", self.build.view, why)
        self._store.rebuild(self.build, generation, why)

    def _once(self) -> None:
        """From claim to the end of one query."""
        began = time.monotonic()
        view, feed, events = self.definition
        for name in self._config.unlisted_functions(view):
            raise BadView(
                f"view {view.name}: the function {name} is not allowed",
                hint="Name it in auth.functions, or put the view into the configuration file",
            )
        try:
            rule_of(view)
            if events is not None:
                event_rule_of(view)
        except ValueError as error:
            raise BadView(f"view {view.name}: {error}") from None
        if events is not None and events.named_schemas:
            raise BadView(f"view {view.name}: an event feed cannot be of format avro, or framed")
        if self._book is not None:
            self._known = self._book.read()
        plan = Compiler(self._spark).compile(view, feed, self._known)
        if feed.create:
            ensure_topic(self._admin, feed.topic, feed.partitions)
        ensure_topic(self._admin, feed.dead_letter_topic, 1)
        source = get_topic(self._admin, feed.topic)
        self._events_topic = self._prepare_events(events) if events is not None else None
        before = self._store.build(self.build)
        generation = before.generation if before is not None else 0
        forced = before is not None and before.rekey
        self.facts.rekeyed = view.needs_rekey(feed, source.partitions, forced=forced)
        try:
            read = self._internal(before, source.partitions) if self.facts.rekeyed else source
            # Before the records at the marks are looked at: an election after that is noticed by these.
            leaders = Leaders.read(self._admin, source.name)
            ground = Topics(
                source, read, leaders, Leaders.read(self._admin, read.name) if read is not source else leaders
            )
            claimed = self._store.claim(self.build, source.id, source.partitions, DRIVER)
            self._progress.claim = claimed.claim
            generation = claimed.claim.generation
            known = claimed.fingerprints
            if self.facts.rekeyed:
                memos = before.partition_states if before is not None else {}
                folded = (*known.source.items(), *source_fingerprints(memos.values()).items())
                hop = self._start_offsets(source, marks_of(claimed.rekey_offsets), folded)
                copied = (*known.read.items(), *known.copied.items())
                found = self._start_offsets(ground.read, claimed.marks, copied, internal=True)
            else:
                found = hop = self._start_offsets(source, claimed.marks, known.read.items())
            lost = self._place_events(bool(claimed.marks))
        except (TopicReplaced, Truncated) as error:
            self._replace(error, generation)
            return
        if self._book is not None and self._asking:
            self._book.want(schemas_ahead(self._config.kafka, source.name, hop.starts))
            self._known, self._asking = self._book.read(), False
            plan = Compiler(self._spark).compile(view, feed, self._known)
        self._pin(hop.starts, claimed.rekey_offsets if self.facts.rekeyed else claimed.marks)
        info = self._store.build(self.build)
        live = info is not None and info.status == BuildStatus.LIVE
        incomplete = {"incomplete": "1"} if hop.incomplete or found.incomplete or lost else {}
        self._store.update_build(self.build, reason="", **incomplete)
        self._compile(source.name, hop.starts, plan)
        log.info("view %s: compiled, %.1f s after its job began", view.name, time.monotonic() - began)
        if self.facts.rekeyed and self._engine(hop.waiting, live) == Engine.CATCH_UP:
            self._run(plan, ground, found, hop, live, Engine.CATCH_UP, only_hop=True)
            return
        kind = self._engine(found.waiting, live)
        if kind != Engine.CATCH_UP and not live and not found.waiting:
            self._go_live()
            live = True
        self._lacks = 0
        if kind == Engine.REAL_TIME:
            kind = self._if_slots(ground.read.partitions * (2 if self.facts.rekeyed else 1))
        try:
            self._run(plan, ground, found, hop, live, kind)
        finally:
            self._slots.release(self.build)

    def _internal(self, info: BuildInfo | None, partitions: int) -> Topic:
        """The topic of re-keyed records: that of this life of the build, or a new one.

        What a build of the same name left there, before a FLUSHALL or a delete, has attempts of its own.
        Raises TopicReplaced when records went through one that is not there any more.
        """
        name = internal_topic(self.build)
        there = find_topic(self._admin, name)
        of_before = info is not None and not info.internal and bool(info.rekey_offsets or info.marks)
        if there is not None and info is not None and (info.internal == there.id or of_before):
            return there
        if info is not None and info.internal and info.rekey_offsets:
            raise TopicReplaced(name)
        made = replace_topic(self._admin, name, partitions, INTERNAL)
        self._store.update_build(self.build, internal=made.id)
        return made

    def _if_slots(self, needed: int) -> Engine:
        """Real-Time Mode needs a slot for every partition, for good; without them it is micro-batches."""
        if self._slots.take(self.build, needed):
            self.facts.engine_reason = ""
            return Engine.REAL_TIME
        self._lacks, total = needed, self._slots.total
        self.facts.engine_reason = (
            f"Real-Time Mode needs {needed} slots, too few of {total} are free (spark.slots)"
            + ("; events wait for the next record of their partition" if self.definition.events else "")
        )
        log.warning("view %s: runs in micro-batches: %s", self.build.view, self.facts.engine_reason)
        return Engine.MICRO_BATCH

    def _prepare_events(self, feed: Feed) -> Topic:
        """Find or make the topic of the event feed, which has one partition; raises BadView for another."""
        if feed.create:
            ensure_topic(self._admin, feed.topic, 1)
        ensure_topic(self._admin, feed.dead_letter_topic, 1)
        found = get_topic(self._admin, feed.topic)
        if found.partitions != 1:
            raise BadView(
                f"view {self.build.view}: the topic {found.name} of its event feed has {found.partitions} "
                "partitions; it must have one, so that every reducer folds the events in the same order"
            )
        return found

    def _place_events(self, begun: bool) -> bool:
        """Decide where the event feed is read from; return whether events that were needed are gone."""
        topic, feed = self._events_topic, self.definition.events
        self._events = None
        if topic is None or feed is None:
            return False
        leaders = Leaders.read(self._admin, topic.name)
        info = self._store.build(self.build)
        earliest = topic_offsets.earliest_offsets(self._admin, topic.name)
        ends = topic_offsets.end_offsets(self._admin, topic.name)
        first = self._first(earliest, ends, begun, topic.name)
        memos = info.partition_states if info is not None else {}
        found = event_start_offsets(self.definition.view, memos, topic.id, earliest[0], ends[0], first[0])
        reached = filter(None, map(read_event_progress, memos.values()))
        self._recognise(topic, [(0, one.fingerprint) for one in reached if one.fingerprint], earliest, ends)
        self._events = EventFeed(feed, topic.id, earliest[0], found.starts[0], leaders)
        return found.incomplete

    def _start_offsets(
        self, topic: Topic, marks: Mapping[int, Mark], known: Expected, internal: bool = False
    ) -> StartOffsets:
        """Where to start in a topic; an internal one is always read whole.

        ``known`` are records that must be there as they were. Raises Truncated.
        """
        earliest = topic_offsets.earliest_offsets(self._admin, topic.name)
        ends = topic_offsets.end_offsets(self._admin, topic.name)
        first = earliest if internal else self._first(earliest, ends, bool(marks), topic.name)
        found = start_offsets(self.definition.view, marks, earliest, ends, first)
        self._recognise(topic, known, earliest, ends)
        return found

    def _recognise(
        self,
        topic: Topic,
        known: Expected,
        earliest: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> None:
        """Raise Truncated unless the records that were folded last are still there."""
        wanted = to_look_at(known, earliest, ends)
        if wanted:
            found = read_checksums(self._config.kafka, topic.name, wanted)
            judge(wanted, found, lambda: is_compacted(self._admin, topic.name))

    def _run(
        self,
        plan: Plan,
        ground: Topics,
        found: StartOffsets,
        hop: StartOffsets,
        live: bool,
        kind: Engine,
        only_hop: bool = False,
    ) -> None:
        """Start the view's queries and watch them; stop all when one ends."""
        view, feed, _ = self.definition
        name = f"{self.build.view}-{self.build.id}-{self._progress.claim.generation}-{kind}"
        running: list[engine.RunningQuery] = []
        began = time.monotonic()
        kind_of_hop: Engine = Engine.REAL_TIME
        try:
            if self.facts.rekeyed:
                kind_of_hop = (
                    kind if only_hop or kind == Engine.MICRO_BATCH else self._engine(hop.waiting, True)
                )
                records = engine.read(self._spark, self._config, feed.topic, hop.starts, kind_of_hop)
                prepared = engine.prepare(records, plan, kind_of_hop)
                running.append(
                    engine.rekey(
                        self._config,
                        prepared,
                        self._progress.claim.generation,
                        ground.read.name,
                        kind_of_hop,
                        f"{name}-rekey",
                    )
                )
            if not only_hop:
                records = engine.read(self._spark, self._config, ground.read.name, found.starts, kind)
                packed = REKEYED_SQL
                if self.facts.rekeyed:
                    records = records.selectExpr("partition", "offset", "value", CHECKSUM_SQL)
                else:
                    records, packed = engine.prepare(records, plan, kind), "packed"
                records = engine.to_python(records, packed, self._config, kind)
                task = Task(
                    view,
                    feed,
                    self.build,
                    self._progress.claim,
                    self._config.store.address_of(view.name),
                    self._config.store.log_length,
                    self._config.kafka,
                    feed.topic,
                    plan.projection,
                    ground.read_leaders,
                    # Spark's consumer goes on where the batch before ended, whatever was elected meanwhile.
                    hop_leaders=ground.source_leaders if kind_of_hop != Engine.REAL_TIME else None,
                    quiet=not live,
                    rekeyed=self.facts.rekeyed,
                    events=self._events,
                    live=kind == Engine.REAL_TIME,
                    catching_up=kind == Engine.CATCH_UP,
                    unusable=self._known.unusable,
                )
                running.append(engine.reduce(self._spark, self._config, records, Worker(task), kind, name))
            log.info("view %s: started as %s", view.name, ", ".join(one.query.name for one in running))
            self._watch(running, ground, found, hop, live, kind, only_hop)
        finally:
            if not only_hop:
                self._let_start(running, kind, ground.read.partitions, began + STARTING)
            for one in running:
                one.stop()

    def _let_start(
        self, running: Sequence[engine.RunningQuery], kind: Engine, partitions: int, deadline: float
    ) -> None:
        """Let tasks that are starting get their workers.

        Spark takes the interruption of one that waits for a worker for the end of its Python daemon, and ends
        it (decision 17).
        """
        try:
            while time.monotonic() < deadline and all(one.query.isActive for one in running):
                if kind != Engine.REAL_TIME and not any(map(_busy, running)):
                    return
                if not self._progress.silent(partitions):
                    return
                time.sleep(0.05)
        except Exception as error:
            log.debug("view %s: its tasks are not waited for: %s", self.build.view, error)

    def _compile(self, topic: str, starts: dict[int, int], plan: Plan) -> None:
        """Let Spark analyse the SQL now, so that what it says is said of the view and not of a query."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            engine.prepare(
                engine.read(self._spark, self._config, topic, starts, Engine.CATCH_UP), plan, Engine.CATCH_UP
            )
        except PySparkException as error:
            message = str(error).split("\n'", 1)[0].split(";\n", 1)[0].strip()
            raise BadView(f"view {self.build.view}: {message}") from None
        except Py4JJavaError as error:  # what Spark says of an Avro schema
            said = " ".join(str(error.java_exception.getMessage()).split())
            raise BadView(f"view {self.build.view}: {said[:300]}") from None

    def _engine(self, waiting: int, live: bool) -> Engine:
        chosen = self.definition.view.engine
        if chosen == "auto":
            chosen = self._config.spark.engine
        if chosen == Engine.MICRO_BATCH:
            return Engine.MICRO_BATCH
        if waiting > self._config.spark.catchup_lag or (waiting and not live):
            return Engine.CATCH_UP
        return Engine.REAL_TIME

    def _first(
        self, earliest: dict[int, int], ends: dict[int, int], begun: bool, topic: str
    ) -> dict[int, int]:
        """Where a partition without a mark starts; one that came later is read whole."""
        start = self.definition.view.start
        if start == "earliest" or begun:
            return earliest
        if start == "now":
            return ends
        from datetime import datetime

        moment = int(datetime.fromisoformat(start.replace("Z", "+00:00")).timestamp() * 1000)
        return topic_offsets.offsets_at(self._admin, topic, moment)

    def _pin(self, starts: Mapping[int, int], held: Mapping[int, object]) -> None:
        """Keep where a view began: "now" would be another place when its query starts again."""
        new = {partition: at for partition, at in starts.items() if partition not in held}
        if new and self.definition.view.start != "earliest":
            self._progress.move(new, rekey=self.facts.rekeyed)

    def _go_live(self, *, fence: bool = False) -> None:
        """``fence`` where tasks may still fold without telling anybody: from now on somebody listens."""
        self._store.go_live(self.build, self._progress.claim.generation, fence=fence)
        log.info("view %s: build %s is live", self.build.view, self.build.id)

    def _watch(
        self,
        running: Sequence[engine.RunningQuery],
        ground: Topics,
        found: StartOffsets,
        hop: StartOffsets,
        live: bool,
        kind: Engine,
        only_hop: bool,
    ) -> None:
        """Follow running queries: progress, lag, new partitions; return when they should start anew."""
        self.facts.engine, self.facts.status, self.facts.reason = (
            kind,
            (JobState.LIVE if live else JobState.BUILDING),
            "",
        )
        began = looked = mirrored = time.monotonic()
        clearing = Clearing(began)
        seen = [-1 for _ in running]
        last_ends: dict[int, int] = {}
        progress = self._progress
        heard = kind != Engine.REAL_TIME
        assigned: list[int] = []
        self._store.save_checkpoint(self.build, PLACE_MS, PLACES)
        keeper = self._timekeeper(ground.read.partitions) if kind == Engine.MICRO_BATCH and live else None
        while not self._stopping.is_set():
            if kind == Engine.REAL_TIME and not assigned:
                assigned = self._assign(running[-1])
            heard = heard or not progress.silent(ground.read.partitions)
            if heard:
                self.settled.set()
            pause = 1.0 if heard else 0.1
            done = [one.query.awaitTermination(pause / len(running)) for one in running]
            before = list(seen)
            for at, one in enumerate(running):
                hops = self.facts.rekeyed and at == 0
                read = ground.source_leaders if hops else ground.read_leaders
                seen[at] = progress.advance(one, seen[at], read, ground.read_leaders if hops else None)
            if seen[-1] != before[-1]:
                assigned = []  # another batch was planned
            if keeper is not None and seen == before and not any(map(_busy, running)):
                keeper.step()
            now = time.monotonic()
            ends, epochs = topic_offsets.end_offsets_and_epochs(self._admin, ground.source.name)
            ground.source_leaders.compare(epochs)
            if self.facts.rekeyed:
                ground.read_leaders.confirm(self._admin)
            if ends != last_ends:
                self._store.mark_source_active(self.build.view)
                last_ends = ends
            events = self._events_topic
            events_end = None
            if events is not None and self._events is not None:
                events_ends, epochs = topic_offsets.end_offsets_and_epochs(self._admin, events.name)
                self._events.leaders.compare(epochs)
                events_end = events_ends[0]
            progress.move({})  # while nothing is written nobody else would notice another run of the store
            folded_to = progress.measure(hop.starts, ends, events_end)
            if now - mirrored > MIRROR:
                mirrored = now
                progress.mirror(ground.source.name, folded_to)
            if self.facts.rekeyed:
                topic_offsets.delete_records_before(
                    self._admin, ground.read.name, clearing.due(now, progress.offsets)
                )
            if any(done):
                if kind == Engine.CATCH_UP and not only_hop and not live and all(done[-1:]):
                    left = self._start_offsets(
                        ground.read, progress.marks(), (), internal=self.facts.rekeyed
                    ).waiting
                    if left <= self._config.spark.catchup_lag:
                        self._go_live(fence=True)
                return
            if now - looked > LOOK_TOPIC:
                looked = now
                self._store.save_checkpoint(self.build, PLACE_MS, PLACES)
                there = get_topic(self._admin, ground.source.name)
                if there != ground.source:
                    log.info("view %s: topic %s changed: %s", self.build.view, there.name, there)
                    return
                if events is not None and get_topic(self._admin, events.name) != events:
                    log.info("view %s: its event feed's topic %s changed", self.build.view, events.name)
                    return
                if self._book is not None and self._book.come():
                    log.info("view %s: starts anew: a schema that was missing is there", self.build.view)
                    return
                if self._lacks and self._slots.take(self.build, self._lacks):
                    log.info("view %s: there are slots for Real-Time Mode now", self.build.view)
                    return
            first_word = FIRST_WORD if self._begun else FIRST_START
            if kind == Engine.REAL_TIME and now - began > (SILENCE if heard else first_word):
                self._listen(ground.read.partitions)
            self._begun = self._begun or heard
            if kind == Engine.MICRO_BATCH and not live and not self.facts.lag:
                self._go_live(fence=True)
                return

    def _timekeeper(self, partitions: int) -> Timekeeper | None:
        """Where batches come only with records, time passes here; not for events, which come in batches."""
        view = self.definition.view
        if self.definition.events is not None:
            return None

        def make(partition: int) -> Reducer:
            return Reducer(
                self._store,
                self.build,
                partition,
                self._progress.claim,
                view,
                rule_of(view),
                lambda letters: None,  # nothing is folded here
            )

        return Timekeeper(self._store, self.build, view, partitions, make)

    def _assign(self, running: engine.RunningQuery) -> list[int]:
        """Tell the tasks which partition each of them reads: one without records cannot know."""
        found = engine.partitions_read(running.query)
        if found:
            self._store.assign(self.build, self._progress.claim, found)
        return found

    def _listen(self, partitions: int) -> None:
        """Make sure that every task of a batch is alive: Spark would notice only with the next record."""
        if silent := self._progress.silent(partitions):
            raise ReducerFailed(silent)


def _busy(one: engine.RunningQuery) -> bool:
    return bool(one.query.status["isDataAvailable"])


def _gist(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if "Error:" in line or "Exception:" in line or "StoreWentBack" in line:
            return line[:300]
    return lines[0][:300] if lines else ""  # what follows an error of Spark's is its plan
