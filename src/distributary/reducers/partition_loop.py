"""What a task does for its partition, in the order in which it is done: fold, expire, tick, report.

It takes all records that are pending, folds them and writes them in one round trip, and repeats: a record
alone waits for nothing, a thousand share a trip.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import BusyLoadingError, ConnectionError, OutOfMemoryError, ReadOnlyError, TimeoutError

from distributary.model.build import Engine
from distributary.model.query import Query
from distributary.reducers.confluent_framing import explain
from distributary.reducers.dead_letter_writer import DeadLetterWriter
from distributary.reducers.event_fold import EventFold, FeedEvent, event_rule_of, in_order
from distributary.reducers.event_reader import EventReader
from distributary.reducers.failures import write_report
from distributary.reducers.record_codec import Packed, unpack, unpack_rekeyed
from distributary.reducers.record_queue import RecordQueue
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.reducers.task_contract import Task, TaskHeartbeat
from distributary.reducers.topic_identity import Leaders, admin_of
from distributary.reducers.write_batch import GroupSize, GroupTooLarge, portion
from distributary.store.errors import Fenced
from distributary.store.redis_writer import RedisWriter

log = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_RECORDS, BUSY_TRIP = 8, 0.006
"""From this many records in a group on, trips to the store begin at least so many seconds apart: what a trip
costs besides its records, here, in the store and in every publisher, is then shared by more of them."""
TICK = 1.0
EXPIRING = 0.3
"""For how many seconds at a time expired rows are removed, before records have their turn again."""
MAX_REOPENS = 5
"""How often in a row a batch's task takes its partition back."""
_LINK_ERRORS = (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, OSError)


class PartitionLoop:
    """Folds what a queue brings into one partition. For one thread.

    ``number`` is that of Spark's task, which is not that of its Kafka partition.
    """

    def __init__(self, task: Task, number: int, queue: RecordQueue) -> None:
        self._task = task
        self._number = number
        self._queue = queue
        self._heartbeat = TaskHeartbeat(task.store_url, f"{task.build.view}/{task.build.id}/{number}")
        self._size = GroupSize()
        # Created when they are needed first, by _connect and _open.
        self._store: RedisWriter | None = None
        self._reducer: Reducer | None = None
        self._events: EventReader | None = None
        self._dead_letters: list[DeadLetterWriter] = []
        # Before there is a reducer: the registry's version when it was last read, and whether any query
        # contains now().
        self._version = -1
        self._timed = False
        self._confirmed: set[tuple[str, int]] = set()  # topics and partitions without an election since
        self._ticked = 0.0

    def run(self) -> None:
        """Work until the queue is finished and empty, or abandoned."""
        self._heartbeat.start()
        self._tick()
        unpack_one = unpack_rekeyed if self._task.rekeyed else unpack
        while True:
            # 1. Wait for records, a command, events, or until something is due.
            work = self._queue.take(self._wait_timeout, self._has_events)
            if work is None:
                return
            began = time.monotonic()
            # 2. Fold records, in the order of time with the events that wait.
            if self._task.events is not None:
                self._fold_both([unpack_one(one) for one in work.records])
            elif work.records:
                self._fold([unpack_one(one) for one in work.records])
            # 3. Queries that came, and rows that are due.
            if work.refresh:
                self._read_registry()
            if not self._tick_if_due() and self._reducer is not None and self._reducer.wait() == 0.0:
                self._let_time_pass(self._reducer)
            if work.finished:
                return
            # 4. Under load, let more records share the next trip.
            if len(work.records) >= BUSY_RECORDS:
                time.sleep(max(0.0, began + BUSY_TRIP - time.monotonic()))

    def report(self, error: BaseException) -> None:
        """Report a failure to the driver: Spark would pass it on only with the next record."""
        if self._store is None:
            return
        try:
            fault = write_report(self._task.claim.generation, error)
            self._store.update_build(self._task.build, fault=fault)
        except _LINK_ERRORS:
            log.warning("cannot report the failure to the store", exc_info=True)

    def close(self) -> None:
        """Close all connections."""
        self._heartbeat.close()
        for writer in self._dead_letters:
            writer.close()
        if self._events is not None:
            self._events.close()
        if self._store is not None:
            self._store.close()

    # --- records and events -----------------------------------------------------------------------------

    def _fold(self, records: Sequence[Packed]) -> None:
        partition = records[0].partition
        reducer = self._reducer_of(partition)
        at = 0
        while at < len(records):
            some = portion(records, at, self._size.records)
            self._confirm(self._task.leaders, partition)
            if self._task.source_leaders is not None:
                self._task.source_leaders.confirm(admin_of(self._task.kafka))
            began = time.monotonic()
            try:
                self._with_store(reducer, partial(reducer.fold, some))
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

    def _has_events(self) -> bool:
        """Whether events wait that may be folded without a record."""
        live = self._task.engine is Engine.REAL_TIME
        return live and self._events is not None and self._events.has_some()

    def _fold_both(self, records: list[Packed]) -> None:
        """Fold records and the events that wait, the older first; an event that is under way before all."""
        if records:
            self._reducer_of(records[0].partition)
        if self._reducer is None:
            return
        reducer, fold, reader = self._reducer, self._reducer.events, self._events
        assert fold is not None
        assert reader is not None
        while fold.under_way:
            self._wait_for_events(reader)
            found = reader.waiting()
            if found and found[0].offset == fold.reached.offset:
                self._fold_events(reducer, fold, reader, found[:1])
            else:  # its topic was compacted, or cut: some rows have the event and the others never will
                self._connect().update_build(self._task.build, incomplete="1")
                fold.give_up()

        def waiting() -> list[FeedEvent]:
            if self._task.engine is not Engine.REAL_TIME:
                self._wait_for_events(reader)
            return reader.waiting()

        catching_up = self._task.engine is Engine.CATCH_UP
        for some, events in in_order(records, waiting, hold_newer=catching_up):
            if some:
                self._fold(some)
            else:
                self._fold_events(reducer, fold, reader, events)
            self._tick_if_due()

    def _fold_events(
        self, reducer: Reducer, fold: EventFold, reader: EventReader, events: Sequence[FeedEvent]
    ) -> None:
        """Fold events to their last row, in as many groups as that takes, with heartbeats meanwhile."""
        assert self._task.events is not None
        self._confirm(self._task.events.leaders, 0)
        while fold.unfolded(events):
            self._with_store(reducer, partial(reducer.fold_events, events))
            self._tick_if_due()
        reader.done(fold.reached.offset)

    def _wait_for_events(self, reader: EventReader) -> None:
        """Wait for the first event, or until it is known that there is none."""
        if not self._queue.wait_until(reader.is_known, TICK):
            raise RuntimeError("the task was abandoned")

    # --- time and queries -------------------------------------------------------------------------------

    def _wait_timeout(self) -> float:
        """How long to wait for records: not beyond what is due."""
        due = self._reducer.wait() if self._reducer is not None else None
        return TICK if due is None else min(TICK, max(0.001, due))

    def _tick_if_due(self) -> bool:
        if time.monotonic() - self._ticked < TICK:
            return False
        self._tick()
        return True

    def _tick(self) -> None:
        self._ticked = time.monotonic()
        self._send_heartbeat()
        # A command may have been missed, and on a partition without records no write would be refused.
        self._read_registry()
        self._open_if_needed()
        if self._reducer is not None:
            self._let_time_pass(self._reducer)

    def _send_heartbeat(self) -> None:
        reducer = self._reducer
        stats: dict[str, Any] = {"pid": os.getpid(), "generation": self._task.claim.generation}
        if reducer is not None:
            stats |= {**reducer.sizes(), "folded": reducer.folded, "dead": reducer.dead}
            stats["partition"] = reducer.partition
            if reducer.events is not None:
                stats["events"] = reducer.events.reached.offset
        self._heartbeat.turn(stats)

    def _let_time_pass(self, reducer: Reducer) -> None:
        """Remove expired rows, and let rows enter and leave queries with ``now()``."""
        began = time.monotonic()
        while True:
            self._with_store(reducer, reducer.expire)
            if reducer.wait() != 0.0 or time.monotonic() - began > EXPIRING:
                break
        self._with_store(reducer, reducer.tick)

    def _read_registry(self) -> None:
        """Read what is new in the registry, also where no records come and only time passes."""
        if self._reducer is not None:
            self._with_store(self._reducer, self._reducer.refresh)
        elif not self._timed:
            view = self._task.build.view
            self._timed = any(Query.load(view, text).timed for text in self._retry(self._new_queries))

    def _new_queries(self) -> list[str]:
        """The texts of queries that came since the registry was last read."""
        view = self._task.build.view
        behind = self._connect().registry_diff(view, self._version)
        if behind is None:
            return []
        self._version = behind.version
        if behind.changes is None:
            return [query.text for query in self._connect().registry(view)[1]]
        return [change.text for change in behind.changes if change.text is not None]

    # --- the partition ----------------------------------------------------------------------------------

    def _open_if_needed(self) -> None:
        """Open the partition before a record came, where time or events change its rows.

        Only where a task stays for its partition; between batches the driver does it (``idle_ticker.py``).
        """
        task = self._task
        needed = self._timed or task.view.ttl is not None or task.events is not None
        if self._reducer is None and task.engine is Engine.REAL_TIME and needed:
            partitions = self._retry(lambda: self._connect().assigned(task.build, task.claim))
            if partitions:
                self._reducer_of(partitions[self._number])

    def _reducer_of(self, partition: int) -> Reducer:
        """Return the reducer of a partition, opened."""
        if self._reducer is not None and self._reducer.partition == partition:
            return self._reducer
        self._reducer = None
        task = self._task
        reducer = Reducer(
            self._connect(), task.build, partition, task.claim, self._options(), self._event_fold()
        )
        self._retry(reducer.open)
        self._reducer = reducer
        if task.events is not None and reducer.events is not None:
            if self._events is not None:
                self._events.close()
            start = reducer.events.reached.offset
            self._events = EventReader(task.kafka, task.events.feed.topic, start, self._queue.notify).start()
        return reducer

    def _options(self) -> ReducerOptions:
        task, events = self._task, self._task.events
        options = ReducerOptions(
            view=task.view,
            rule=rule_of(task.view),
            write_dead_letters=self._dead_letters_of(task.topic, task.feed.dead_letter_topic),
            projection=task.projection,
            quiet=task.quiet,
        )
        if events is not None:
            write = self._dead_letters_of(events.feed.topic, events.feed.dead_letter_topic)
            options = replace(options, write_dead_events=write)
        if task.feed.named_schemas:
            original = task.projection.original
            options = replace(
                options, explain=lambda value: explain(original(value), task.feed, task.unusable)
            )
        return options

    def _event_fold(self) -> EventFold | None:
        events = self._task.events
        if events is None:
            return None
        rule = event_rule_of(self._task.view, events.feed.format)
        return EventFold(events.topic, events.start, rule, events.earliest)

    def _dead_letters_of(self, topic: str, target: str) -> Callable[[Sequence[Any]], None]:
        writer = DeadLetterWriter(self._task.kafka, topic, target, self._task.view.name)
        self._dead_letters.append(writer)
        return writer.write

    # --- the store --------------------------------------------------------------------------------------

    def _connect(self) -> RedisWriter:
        if self._store is None:
            self._store = RedisWriter(self._task.store_url, log_length=self._task.log_length)
        return self._store

    def _with_store(self, reducer: Reducer, call: Callable[[], object]) -> None:
        """Call a reducer; if the connection breaks, open again and call again.

        What was written already is skipped by the mark that ``open`` returns. In a batch the driver may have
        taken the partition for a moment (``idle_ticker.py``): it is taken back then.
        """
        reopens = 0 if self._task.engine is Engine.REAL_TIME else MAX_REOPENS
        self._retry(call, reducer.open, reopens)

    def _retry(self, call: Callable[[], T], reopen: Callable[[], None] | None = None, reopens: int = 0) -> T:
        """Call until the store responds, with backoff, after ``reopen`` from the second time on.

        A fenced call is repeated at most ``reopens`` times.
        """
        delay, failed = 0.05, False
        while True:
            try:
                if failed and reopen is not None:
                    reopen()
                return call()
            except Fenced:
                if not reopens:
                    raise
                reopens -= 1
            except _LINK_ERRORS as error:
                if self._queue.abandoned:
                    raise
                log.warning("the store is not responding (%s); retrying in %.2f s", error, delay)
                time.sleep(delay)
                delay = min(1.0, delay * 2)
            failed = True
