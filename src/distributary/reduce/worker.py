"""What runs inside Spark: one task, one partition, one call of ``Worker``.

The loop over Arrow batches only hands records on; one writer thread takes all
that is there, folds and writes it in one round trip, and repeats. A record
alone waits for nobody; a thousand share a trip.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import BusyLoadingError, ConnectionError, OutOfMemoryError, ReadOnlyError, TimeoutError

from distributary.config.sections import Kafka
from distributary.kafka.commands import CommandsReader
from distributary.model.feed import Feed
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reduce.deadletters import DeadLetters
from distributary.reduce.eventreader import EventFeed, EventReader
from distributary.reduce.framing import explain
from distributary.reduce.packed import Packed, unpack, unpack_rekeyed
from distributary.reduce.projection import Projection
from distributary.reduce.reducer import Reducer
from distributary.reduce.rules import rule_of
from distributary.reduce.world import Happening, World, event_rule_of, in_turn
from distributary.store.base import Fenced
from distributary.store.redis import RedisWriter
from distributary.store.tail import Build

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("distributary.reduce.worker")

GROUP_RECORDS = 5_000
GROUP_BYTES = 4_000_000
PENDING_RECORDS = 20_000
BUSY_RECORDS, BUSY_TRIP = 8, 0.006
"""From this many records in a group on, trips to the store begin at least so many seconds apart: what a trip
costs besides its records, here, in the store and in every publisher, is then shared by more of them."""
TICK = 1.0
REOPENS = 5
"""How often in a row a batch's task takes its partition back."""
_LINK_ERRORS = (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, OSError)


@dataclass(frozen=True)
class Task:
    """All that a task needs to know; travels to the worker pickled."""

    view: View
    feed: Feed
    build: Build
    generation: int
    store_url: str
    log_keep: int
    kafka: Kafka
    topic: str
    projection: Projection
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
        pump = _Pump(self._task, _spark_partition())
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


class _Pump:
    """A bounded list between the loop and the writer thread."""

    def __init__(self, task: Task, partition: int) -> None:
        self._task = task
        self._partition = partition
        self._condition = threading.Condition()
        self._pending: list[bytes] = []
        self._bytes = 0
        self._done = False
        self._abandoned = False
        self._refresh = False
        self._looked = -1  # the registry's version when it was last looked at for timed queries
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._reducer: Reducer | None = None
        self._store: RedisWriter | None = None
        self._events: EventReader | None = None
        self._ticked = 0.0
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, records: list[bytes]) -> None:
        """Hand records on; waits while too many are under way."""
        with self._condition:
            while len(self._pending) > PENDING_RECORDS and self._failure is None:
                self._condition.wait(1.0)
            if self._failure is not None:
                raise self._failure
            self._pending += records
            self._condition.notify_all()

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
            commands()
            if self._events is not None:
                self._events.close()
            if self._store is not None:
                self._store.close()

    def _report(self, error: BaseException) -> None:
        """Tell the driver: Spark itself would hear of it only with the next record."""
        try:
            if self._store is not None:
                fault = f"{self._task.generation} {type(error).__name__}: {error}"
                self._store.note(self._task.build, fault=fault)
        except _LINK_ERRORS:
            log.warning("the store does not take the report", exc_info=True)

    def _loop(self) -> None:
        self._open_if_timed()
        if self._task.events is not None and self._task.live and self._reducer is None:
            self._open(self._partition)
        self._tick()
        while True:
            with self._condition:
                while not (self._pending or self._done or self._refresh or self._happens()):
                    if not self._condition.wait(self._patience()):
                        break
                if self._abandoned:
                    return
                records = self._pending[:GROUP_RECORDS]
                del self._pending[: len(records)]
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
                self._open_if_timed()
                if self._reducer is not None:
                    self._with_store(self._reducer.refresh)
            if not self._tick_if_due() and self._reducer is not None and self._reducer.waits() == 0.0:
                self._with_store(self._reducer.tick)
            if finished:
                # The batch may be declared done only if the store still has all of it.
                self._tick()
                return
            if len(records) >= BUSY_RECORDS:
                time.sleep(max(0.0, began + BUSY_TRIP - time.monotonic()))

    def _fold(self, records: list[Packed]) -> None:
        partition = records[0].partition
        if self._reducer is None or self._reducer.partition != partition:
            self._open(partition)
        reducer = self._reducer
        assert reducer is not None
        size, some = 0, []
        for one in records:
            some.append(one)
            size += len(one.value or b"")
            if size >= GROUP_BYTES:
                self._with_store(partial(reducer.fold, some))
                size, some = 0, []
        if some:
            self._with_store(partial(reducer.fold, some))

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
            if found := reader.waiting():
                self._happen(found[:1])
            else:
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

    def _open_if_timed(self) -> None:
        """Open the partition though no record came yet: time passes for its rows, too."""
        if self._reducer is None:
            view = self._task.build.view
            found: list[list[str]] = []
            self._retry(lambda: found.append(self._new_queries(view)))
            if any(Query.load(view, text).timed for text in found[0]):
                self._open(self._partition)

    def _new_queries(self, view: str) -> list[str]:
        """The texts of queries that came since the last look."""
        missed = self._connect().missed(view, self._looked)
        if missed is None:
            return []
        self._looked = missed.version
        if missed.changes is None:
            return [query.text for query in self._connect().registry(view)[1]]
        return [change.text for change in missed.changes if change.text is not None]

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        if self._reducer is None and self._task.view.ttl is not None:
            self._open(self._partition)
        reducer, store = self._reducer, self._connect()
        facts: dict[str, object] = {"pid": os.getpid(), "generation": self._task.generation}
        if reducer is not None:
            self._with_store(reducer.expire)
            self._with_store(reducer.tick)
            facts |= {**reducer.sizes(), "folded": reducer.folded, "dead": reducer.dead}
            facts["partition"] = reducer.partition
            if reducer.world is not None:
                facts["events"] = reducer.world.reached.offset
        name = f"{self._task.build.view}/{self._task.build.id}/{self._partition}"
        beat = partial(store.beat, "reducer", name, json.dumps(facts))
        if reducer is not None:
            self._with_store(beat)
        else:
            self._retry(beat)

    def _connect(self) -> RedisWriter:
        if self._store is None:
            self._store = RedisWriter(self._task.store_url, log_keep=self._task.log_keep)
        return self._store

    def _open(self, partition: int) -> None:
        task = self._task
        letters = DeadLetters(task.kafka, task.topic, task.feed.dead_letter_topic, task.view.name)
        reducer = Reducer(
            self._connect(),
            task.build,
            partition,
            task.generation,
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
        letters = DeadLetters(task.kafka, events.feed.topic, events.feed.dead_letter_topic, task.view.name)
        world = World(events.topic, events.start, rule, events.earliest)
        return {"world": world, "bury_events": letters.bury}

    def _explain(self) -> dict[str, Any]:
        feed, unusable, original = self._task.feed, self._task.unusable, self._task.projection.original
        if not feed.named_schemas:
            return {}
        return {"explain": lambda value: explain(original(value), feed, unusable)}

    def _with_store(self, call: Callable[[], object]) -> None:
        """Do something with the store; when the link breaks, open again and do it again.

        What was written already is skipped by the mark that ``open`` gives. In a batch the driver may have
        taken the partition for a moment (``timekeeper.py``): then, too.
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
