"""What runs inside Spark: one task, one partition, one call of ``Worker``.

The loop over Arrow batches only hands records on; one writer thread takes all
that is there, folds and writes it in one round trip, and repeats. A record
alone waits for nobody; a thousand share a trip.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import BusyLoadingError, ConnectionError, OutOfMemoryError, ReadOnlyError, TimeoutError

from distributary.config.sections import Kafka
from distributary.kafka.commands_topic import CommandsReader
from distributary.model.build import Build
from distributary.model.feed import Feed
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers.confluent_framing import explain
from distributary.reducers.dead_letter_writer import DeadLetters
from distributary.reducers.event_fold import Happening, World, event_rule_of, in_turn
from distributary.reducers.event_reader import EventFeed, EventReader
from distributary.reducers.record_codec import Packed, Projection, unpack, unpack_rekeyed
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer
from distributary.reducers.task_heartbeat import TaskBeat
from distributary.reducers.topic_identity import Leaders, admin_of
from distributary.reducers.write_batch import GroupSize, GroupTooLarge, portion
from distributary.store.errors import Fenced
from distributary.store.redis_writer import RedisWriter
from distributary.store.store_types import Claim

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("distributary.reducers.spark_task")

GROUP_RECORDS = 5_000
PENDING_RECORDS, PENDING_BYTES = 20_000, 32_000_000
"""What may wait between the loop and the writer, besides the one batch that is being handed on."""
BUSY_RECORDS, BUSY_TRIP = 8, 0.006
"""From this many records in a group on, trips to the store begin at least so many seconds apart: what a trip
costs besides its records, here, in the store and in every publisher, is then shared by more of them."""
TICK = 1.0
EXPIRING = 0.3
"""Seconds in a row in which rows are removed whose time is over, before records have their turn again."""
REOPENS = 5
"""How often in a row a batch's task takes its partition back."""
_LINK_ERRORS = (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, OSError)


@dataclass(frozen=True)
class Task:
    """All that a task needs to know; travels to the worker pickled."""

    view: View
    feed: Feed
    build: Build
    claim: Claim
    store_url: str
    log_length: int
    kafka: Kafka
    topic: str
    projection: Projection
    leaders: Leaders
    hop_leaders: Leaders | None = None
    """Of the source of a re-keyed view, where nobody but the task would notice an election."""
    quiet: bool = False
    rekeyed: bool = False
    events: EventFeed | None = None
    live: bool = True
    """Whether it is Real-Time Mode, where a task stays for its partition; in a batch it goes soon."""
    catching_up: bool = False
    unusable: Mapping[int, str] = field(default_factory=dict)
    """Why records of some schemas cannot be read."""


class Worker:
    """The function that Spark runs over a partition's batches."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold every record of this partition; return only after the last write succeeded."""
        # The writer must get its turn soon after the loop has something for it.
        sys.setswitchinterval(0.0005)
        # Nearly all that is made here goes with its group; looking for cycles in what stays costs a quarter.
        gc.set_threshold(100_000, 20, 20)
        pump = Pump(self._task, _spark_partition())
        # The loop waits for records; a writer that failed must not wait with it.
        signal.signal(signal.SIGUSR1, pump.interrupted)
        pump.start()
        try:
            for batch in batches:
                column = batch.column(0)
                if column.null_count == len(column):
                    continue
                pump.put([one for one in column.to_pylist() if one is not None])
            pump.finish()
        except BaseException:
            pump.abandon()
            raise
        finally:
            # A signal that comes too late must not end the process, which serves other tasks after this.
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        return iter(())


class Pump:
    """A bounded list between the loop that Spark hands records to and the thread that folds and writes them.

    ``partition`` is the number of Spark's task, which is not that of its Kafka partition.
    """

    def __init__(self, task: Task, partition: int) -> None:
        self._task = task
        self._partition = partition
        self._condition = threading.Condition()
        self._pending: deque[list[bytes]] = deque()
        self._records = self._bytes = 0
        self._size = GroupSize()
        self._done = False
        self._abandoned = False
        self._refresh = False
        self._looked = -1  # the registry's version when it was last looked at for timed queries
        self._timed = False  # whether any query asks for the time
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._reducer: Reducer | None = None
        self._store: RedisWriter | None = None
        self._events: EventReader | None = None
        self._confirmed: set[tuple[str, int]] = set()  # topics and partitions without an election since
        self._ticked = 0.0
        self._letters: list[DeadLetters] = []
        name = f"{task.build.view}/{task.build.id}/{partition}"
        self._beat = TaskBeat(task.store_url, name)
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to fold."""
        self._thread.start()

    def put(self, records: list[bytes]) -> None:
        """Hand records on; waits while too many are under way."""
        with self._condition:
            while self._full() and self._failure is None:
                self._condition.wait(1.0)
            if self._failure is not None:
                raise self._failure
            self._pending.append(records)
            self._records += len(records)
            self._bytes += sum(map(len, records))
            self._condition.notify_all()

    def _full(self) -> bool:
        return self._records > PENDING_RECORDS or self._bytes > PENDING_BYTES

    def _take(self) -> list[bytes]:
        """Take what waits, whole batches, about as much as one group may have."""
        taken = list(self._pending.popleft()) if self._pending else []
        while self._pending and len(taken) + len(self._pending[0]) <= GROUP_RECORDS:
            taken += self._pending.popleft()
        self._records -= len(taken)
        self._bytes -= sum(map(len, taken))
        return taken

    def finish(self) -> None:
        """Wait for the last write; raise what the writer raised."""
        with self._condition:
            self._done = True
            self._condition.notify_all()
        self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Stop without writing more."""
        with self._condition:
            self._abandoned = self._done = True
            self._condition.notify_all()

    def interrupted(self, *_: object) -> None:
        """Raise in the loop what the writer raised."""
        if self._failure is not None:
            raise self._failure

    def wake(self) -> None:
        """A command came: read the registry before the next write must be told to."""
        with self._condition:
            self._refresh = True
            self._condition.notify_all()

    def _run(self) -> None:
        commands = _watch_commands(self._task, self.wake)
        self._beat.start()
        try:
            self._loop()
        except BaseException as error:
            with self._condition:
                self._failure = error
                self._condition.notify_all()
            if not self._abandoned:
                self._report(error)
                signal.pthread_kill(self._loop_thread, signal.SIGUSR1)
        finally:
            # The batch must not wait until a consumer has said good-bye: it is the pause between two batches.
            self._ended.set()
            self._beat.close()
            commands()
            for letters in self._letters:
                letters.close()
            if self._events is not None:
                self._events.close()
            if self._store is not None:
                self._store.close()

    def _report(self, error: BaseException) -> None:
        """Tell the driver: Spark itself would hear of it only with the next record."""
        try:
            if self._store is not None:
                fault = f"{self._task.claim.generation} {type(error).__name__}: {error}"
                self._store.update_build(self._task.build, fault=fault)
        except _LINK_ERRORS:
            log.warning("the store does not take the report", exc_info=True)

    def _loop(self) -> None:
        self._tick()
        while True:
            with self._condition:
                while not (self._pending or self._done or self._refresh or self._happens()):
                    if not self._condition.wait(self._patience()):
                        break
                if self._abandoned:
                    return
                records = self._take()
                finished = self._done and not self._pending
                refresh, self._refresh = self._refresh, False
                self._condition.notify_all()
            began = time.monotonic()
            read = unpack_rekeyed if self._task.rekeyed else unpack
            if self._task.events is not None:
                self._take_turns([read(one) for one in records])
            elif records:
                self._fold([read(one) for one in records])
            if refresh:
                self._learn_queries()
            if not self._tick_if_due() and self._reducer is not None and self._reducer.waits() == 0.0:
                self._let_time_pass(self._reducer)
            if finished:
                return
            if len(records) >= BUSY_RECORDS:
                time.sleep(max(0.0, began + BUSY_TRIP - time.monotonic()))

    def _fold(self, records: list[Packed]) -> None:
        partition = records[0].partition
        if self._reducer is None or self._reducer.partition != partition:
            self._open(partition)
        reducer = self._reducer
        assert reducer is not None
        at = 0
        while at < len(records):
            some = portion(records, at, self._size.records)
            self._confirm(self._task.leaders, partition)
            if self._task.hop_leaders is not None:
                self._task.hop_leaders.confirm(admin_of(self._task.kafka))
            began = time.monotonic()
            try:
                self._with_store(partial(reducer.fold, some))
            except GroupTooLarge:
                self._size.too_large(len(some))
                continue
            self._size.took(len(some), time.monotonic() - began)
            at += len(some)
            self._tick_if_due()

    def _confirm(self, leaders: Leaders, partition: int) -> None:
        """Raise LeaderChanged if what was read first may be of another log than the one that was folded (R8).

        What is read after that comes from consumers that know the epoch of what they read before, and fail
        if the log was cut off below it.
        """
        if (leaders.topic, partition) not in self._confirmed:
            leaders.confirm(admin_of(self._task.kafka), (partition,))
            self._confirmed.add((leaders.topic, partition))

    def _happens(self) -> bool:
        """Whether events wait that may be folded without a record."""
        return self._events is not None and self._task.live and self._events.some()

    def _take_turns(self, records: list[Packed]) -> None:
        """Fold records and the events that wait, the older first; an event that is under way before all."""
        if records and (self._reducer is None or self._reducer.partition != records[0].partition):
            self._open(records[0].partition)
        if self._reducer is None:
            return
        world, reader = self._reducer.world, self._events
        assert world is not None
        assert reader is not None
        while world.under_way:
            self._until_known(reader)
            found = reader.waiting()
            if found and found[0].offset == world.reached.offset:
                self._happen(found[:1])
            else:  # its topic was compacted, or made shorter: some rows have it and the others never will
                self._connect().update_build(self._task.build, incomplete="1")
                world.give_up()

        def waiting() -> list[Happening]:
            if not self._task.live:
                self._until_known(reader)
            return reader.waiting()

        for some, events in in_turn(records, waiting, hold=self._task.catching_up):
            if some:
                self._fold(list(some))
            else:
                self._happen(events)
            self._tick_if_due()

    def _happen(self, events: Sequence[Happening]) -> None:
        """Fold events to their last row, however many groups that takes; the task must be heard meanwhile."""
        reducer, reader = self._reducer, self._events
        assert reducer is not None
        assert reader is not None
        assert reducer.world is not None
        assert self._task.events is not None
        self._confirm(self._task.events.leaders, 0)
        while reducer.world.fresh(events):
            self._with_store(partial(reducer.happen, events))
            self._tick_if_due()
        reader.done(reducer.world.reached.offset)

    def _until_known(self, reader: EventReader) -> None:
        """Wait for the first event, or to hear that there is none."""
        with self._condition:
            while not reader.known():
                self._condition.wait(TICK)
                if self._abandoned:
                    raise RuntimeError("the task was abandoned")

    def _woken(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def _tick_if_due(self) -> bool:
        if time.monotonic() - self._ticked < TICK:
            return False
        self._tick()
        return True

    def _patience(self) -> float:
        """How long to wait for records: not beyond what is due."""
        due = self._reducer.waits() if self._reducer is not None else None
        return TICK if due is None else min(TICK, max(0.001, due))

    def _learn_queries(self) -> None:
        """Read what the registry has more, also where no records come and only time passes."""
        if self._reducer is not None:
            self._with_store(self._reducer.refresh)
            return
        view = self._task.build.view
        found: list[list[str]] = []
        self._retry(lambda: found.append(self._new_queries(view)))
        self._timed = self._timed or any(Query.load(view, text).timed for text in found[0])

    def _open_if_needed(self) -> None:
        """Open the partition though no record came yet, where time or events change its rows.

        Only where a task stays for its partition; between batches the driver does it (``idle_ticker.py``).
        """
        task = self._task
        if self._reducer is None and task.live and (self._timed or task.view.ttl is not None or task.events):
            found: list[Sequence[int]] = []
            self._retry(lambda: found.append(self._connect().assigned(task.build, task.claim)))
            if found[0]:
                self._open(found[0][self._partition])

    def _let_time_pass(self, reducer: Reducer) -> None:
        """Remove rows whose time is over, and let rows come to and leave queries with ``now()``."""
        began = time.monotonic()
        while True:
            self._with_store(reducer.expire)
            if reducer.waits() != 0.0 or time.monotonic() - began > EXPIRING:
                break
        self._with_store(reducer.tick)

    def _new_queries(self, view: str) -> list[str]:
        """The texts of queries that came since the last look."""
        missed = self._connect().registry_diff(view, self._looked)
        if missed is None:
            return []
        self._looked = missed.version
        if missed.changes is None:
            return [query.text for query in self._connect().registry(view)[1]]
        return [change.text for change in missed.changes if change.text is not None]

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        self._turn()
        # A command may not have been heard: on a partition without records nobody else would tell.
        self._learn_queries()
        self._open_if_needed()
        if self._reducer is not None:
            self._let_time_pass(self._reducer)

    def _turn(self) -> None:
        """Say that the loop turns."""
        reducer = self._reducer
        facts: dict[str, Any] = {"pid": os.getpid(), "generation": self._task.claim.generation}
        if reducer is not None:
            facts |= {**reducer.sizes(), "folded": reducer.folded, "dead": reducer.dead}
            facts["partition"] = reducer.partition
            if reducer.world is not None:
                facts["events"] = reducer.world.reached.offset
        self._beat.turn(facts)

    def _connect(self) -> RedisWriter:
        if self._store is None:
            self._store = RedisWriter(self._task.store_url, log_length=self._task.log_length)
        return self._store

    def _open(self, partition: int) -> None:
        task = self._task
        letters = self._bury_to(task.topic, task.feed.dead_letter_topic)
        reducer = Reducer(
            self._connect(),
            task.build,
            partition,
            task.claim,
            task.view,
            rule_of(task.view),
            letters.bury,
            task.projection,
            quiet=task.quiet,
            **self._world(),
            **self._explain(),
        )
        self._reducer = None
        self._retry(reducer.open)
        self._reducer = reducer
        if task.events is not None and reducer.world is not None:
            if self._events is not None:
                self._events.close()
            start = reducer.world.reached.offset
            self._events = EventReader(task.kafka, task.events.feed.topic, start, self._woken).start()

    def _world(self) -> dict[str, Any]:
        task, events = self._task, self._task.events
        if events is None:
            return {}
        rule = event_rule_of(task.view, events.feed.format)
        letters = self._bury_to(events.feed.topic, events.feed.dead_letter_topic)
        world = World(events.topic, events.start, rule, events.earliest)
        return {"world": world, "bury_events": letters.bury}

    def _bury_to(self, topic: str, target: str) -> DeadLetters:
        made = DeadLetters(self._task.kafka, topic, target, self._task.view.name)
        self._letters.append(made)
        return made

    def _explain(self) -> dict[str, Any]:
        feed, unusable, original = self._task.feed, self._task.unusable, self._task.projection.original
        if not feed.named_schemas:
            return {}
        return {"explain": lambda value: explain(original(value), feed, unusable)}

    def _with_store(self, call: Callable[[], object]) -> None:
        """Do something with the store; when the link breaks, open again and do it again.

        What was written already is skipped by the mark that ``open`` gives. In a batch the driver may have
        taken the partition for a moment (``idle_ticker.py``): then, too.
        """
        reducer = self._reducer
        assert reducer is not None

        def again() -> None:
            if broken:
                reducer.open()
            call()

        broken: list[Exception] = []
        self._retry(again, broken)

    def _retry(self, call: Callable[[], object], broken: list[Exception] | None = None) -> None:
        delay, fenced = 0.05, 0
        while True:
            try:
                call()
                return
            except Fenced as error:
                fenced += 1
                if broken is None or self._task.live or fenced > REOPENS:
                    raise
                broken.append(error)
            except _LINK_ERRORS as error:
                if self._abandoned:
                    raise
                if broken is not None:
                    broken.append(error)
                log.warning("the store does not answer (%s); trying again in %.2f s", error, delay)
                time.sleep(delay)
                delay = min(1.0, delay * 2)


def _spark_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _watch_commands(task: Task, wake: Callable[[], None]) -> Callable[[], None]:
    name = task.view.name
    reader = CommandsReader(task.kafka, lambda command: wake() if command.view == name else None)
    reader.start()
    return reader.close
