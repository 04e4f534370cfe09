"""A reducer: folds one partition of one view into the store, each record exactly once.

It knows neither Spark nor Kafka: records come in, fenced groups go out. What makes it exact: records at or
before the mark that ``open`` returned are dropped before they are folded (R3), the row cache is cleared by
each ``open`` (R4), and a group is written under a fence or not at all (R1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distributary.model.build import Build
from distributary.model.change import Change, encode_changes
from distributary.model.partition_state import read_event_progress, read_state, write_state
from distributary.model.position import Mark
from distributary.model.view import View
from distributary.reducers.event_fold import EventFold, FeedEvent
from distributary.reducers.live_queries import LiveQueries
from distributary.reducers.query_index import QueryIndex
from distributary.reducers.record_codec import Packed, Projection
from distributary.reducers.record_fold import DeadLetter, Explain, RecordReader, fold_records
from distributary.reducers.reduce_rules import Record, Rule
from distributary.reducers.row_cache import RowCache
from distributary.reducers.write_batch import (
    GROUP_BYTES,
    NO_ROW,
    IndexDelta,
    PendingBatch,
    Step,
    StoredRows,
)
from distributary.store.contract import WriterStore
from distributary.store.errors import Behind
from distributary.store.store_types import ChangeGroup, Claim, Opened

EXPIRED_ROWS = 1_000
"""How many rows one group removes whose time is over."""
WHOLE = Projection()

WriteDeadLetters = Callable[[Sequence[DeadLetter]], None]
"""Writes dead letters to their topic; returns when they are acknowledged (R14)."""


class StoreWentBack(Exception):
    """The store has less than was written: start again from its marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducerOptions:
    """What a reducer folds, and how."""

    view: View
    rule: Rule
    write_dead_letters: WriteDeadLetters
    write_dead_events: WriteDeadLetters = lambda letters: None
    """For the dead letters of the event feed."""
    projection: Projection = WHOLE
    explain: Explain = lambda value: "the value is not JSON"
    quiet: bool = False
    """The build is not live yet: rows are written but no changes are reported."""


class Reducer:
    """Folds the records of one partition; one thread, one store connection, one ``open`` at a time."""

    def __init__(
        self,
        store: WriterStore,
        build: Build,
        partition: int,
        claim: Claim,
        options: ReducerOptions,
        events: EventFold | None = None,
    ) -> None:
        """``events`` is for a view with an event feed."""
        self.build = build
        self.partition = partition
        self.claim = claim
        self.events = events
        self.folded = 0
        """Records that were folded since the reducer was created."""
        self.dead = 0
        """Those of them that were dead letters."""
        self._options = options
        self._view = options.view
        self._store = store
        self._records = RecordReader(options.view, options.projection, options.explain)
        self._cache = RowCache(store, build, partition)
        self._queries = LiveQueries(store, build)
        self._opened: Opened | None = None
        self._mark: Mark | None = None  # after the last group that was written
        self._written = 0  # groups under the token of this open
        self._more_expired = False  # whether the last look found more rows to remove than one group takes

    @property
    def mark(self) -> Mark | None:
        """How far this partition is folded and written."""
        return self._mark

    @property
    def index(self) -> QueryIndex:
        """The queries that changes are matched with."""
        return self._queries.index

    def sizes(self) -> dict[str, int]:
        """Count what is in memory for queries, to show that it shrinks again."""
        return {**self.index.sizes(), "times": len(self._queries.timed)}

    def open(self) -> None:
        """Take the partition; raises StoreWentBack when the store lost what was written before."""
        # 1. Only the driver continues on a store that went back (R2).
        opened = self._store.open(self.build, self.partition, self.claim)
        if self._mark is not None and (opened.mark is None or opened.mark < self._mark):
            raise StoreWentBack(f"the store is at {opened.mark}, this reducer was at {self._mark}")
        if self.events is not None and not self.events.open(read_event_progress(opened.partition_state)):
            raise StoreWentBack("the store has fewer events folded than this reducer wrote")
        # 2. Continue from what the store has; nothing in memory outlives this (R4).
        self._opened = opened
        self._mark = opened.mark
        self._written = 0
        self._records.watermark, self._records.sources = read_state(opened.partition_state)
        self._cache.rows.clear()
        self._queries.open(opened)
        # 3. An event is for every row, so a view with events has all keys in memory.
        if self.events is not None and opened.mark is not None:
            self._load_all(self.events)

    def _load_all(self, events: EventFold) -> None:
        cursor = 0
        while True:
            cursor, rows = self._cache.scan(cursor)
            for key, cached in rows:
                self._cache.rows[key] = cached
                events.update(key, cached[0])
            if not cursor:
                return

    # --- records ----------------------------------------------------------------------------------------

    def fold(self, packed: Sequence[Packed]) -> int:
        """Fold records in order and write them as one group; return how many changes it has.

        Raises GroupTooLarge, with nothing written, when fewer of them would fit into a group. After any
        exception the store is as it was, or has the whole group: after a new ``open`` the same records may be
        given again.
        """
        if self._opened is None:
            raise RuntimeError("call open() first")
        if self.events is not None and self.events.under_way:
            raise RuntimeError("fold the event that is under way first")
        if not self._queries.timed:
            self._queries.clock = self._queries.now()  # no query looks at the clock: it may run
        state, before = self._records.state(), self._mark
        dead: list[DeadLetter] = []
        records, mark = self._records.read(packed, before, dead)
        if mark is None:
            return 0
        count = sum(not one.filtered for one in packed) if packed[-1].filtered else len(packed)
        try:
            return self._fold(records, dead, mark, count)
        except BaseException:
            self._records.restore(state)
            self._mark = before
            raise

    def _fold(self, records: list[Record], dead: list[DeadLetter], mark: Mark, count: int) -> int:
        # 1. Bring the rows that are not in memory, in one trip.
        self._cache.load({record.key for record in records})
        # 2. Fold each record into its row.
        batch = PendingBatch(records=count)
        fold_records(
            batch,
            records,
            self._options.rule,
            self._cache.rows,
            dead,
            ttl=self._view.ttl,
            quiet=self._options.quiet,
        )
        # 3. Lay out the rows: this raises GroupTooLarge before anything is written.
        batch.dead = len(dead)
        rows = batch.stored_rows(self._cache.rows, GROUP_BYTES if count > 1 else None)
        # 4. Dead letters are acknowledged before the mark that skips them is stored (R14).
        if dead:
            self._options.write_dead_letters(dead)
        # 5. Write rows, log and mark together.
        self._write_batch(batch, rows, mark)
        return len(batch.steps)

    def fold_events(self, events: Sequence[FeedEvent]) -> int:
        """Fold events in order, each into every row; return how many changes that is.

        It is one group, so with many rows or events some may be left (``events.unfolded``): call it again. As
        with ``fold``, after any exception and a new ``open`` the same events may be given again.
        """
        fold = self.events
        assert fold is not None
        # 1. Fold as many as one group takes.
        batch, reached, dead = fold.fold(
            events, self._cache.load, self._cache.rows, quiet=self._options.quiet
        )
        rows = batch.stored_rows(self._cache.rows, None)  # its size is limited already
        # 2. Dead letters first (R14).
        if dead:
            self._options.write_dead_events([DeadLetter(0, offset, reason) for offset, reason in dead])
        # 3. How far the events are folded is stored with the rows, in the partition's state.
        before, fold.reached = fold.reached, reached
        if self._mark is None or before == reached:
            return 0  # nothing was ever written here, so there are no rows; the first write stores it
        try:
            self._write_batch(batch, rows, self._mark)
        except BaseException:
            fold.reached = before
            raise
        return len(batch.steps)

    # --- time -------------------------------------------------------------------------------------------

    def expire(self) -> int:
        """Remove rows whose time is over: a timed write, fenced like the rest, mark unchanged (R11)."""
        if self._view.ttl is None or self._mark is None:
            return 0
        now, expired = self._store.expired(self.build, self.partition, EXPIRED_ROWS)
        self._more_expired = len(expired) == EXPIRED_ROWS
        if not expired:
            return 0
        self._cache.load(expired)
        batch = PendingBatch()
        for key in expired:
            row = self._cache.rows[key][0]
            if row is not None:
                batch.last[key] = len(batch.steps)
                batch.steps.append(Step(key=key, time=now, old=row, new=None, fields=b"", json=b""))
                batch.rows[key] = NO_ROW
        self._write_batch(batch, batch.stored_rows(self._cache.rows, None), self._mark)
        return len(batch.steps)

    def tick(self) -> int:
        """Let time pass for queries with ``now()``: a timed write, fenced, mark unchanged (R11).

        Returns how many rows entered or left a query. Call it again soon while ``wait`` is 0.
        """
        queries = self._queries
        if self._mark is None or self._options.quiet or (queries.stored_clock and not queries.timed):
            return 0
        queries.sync_clock()
        if not queries.stored_clock:
            # Readers need to know the time of rows that were written before any change was reported.
            return self._write(PendingBatch(), {}, self._mark, until=queries.now())
        if queries.scan(self._cache):
            return 0
        keys, until = queries.due()
        if not keys:
            return 0
        self._cache.load(keys)
        batch = PendingBatch()
        for key in keys:
            row = self._cache.rows[key][0]
            if row is not None:
                batch.steps.append(
                    Step(key=key, time=until, old=row, new=row, fields=b"", json=b"", until=until)
                )
        self._trim()
        return self._write(batch, {}, self._mark, until=until)

    def wait(self) -> float | None:
        """Seconds until ``expire`` or ``tick`` has something to do; None when time alone brings nothing.

        Expired rows are looked for once a second; 0.0 while more of them are known.
        """
        if self._more_expired:
            return 0.0
        if not self._queries.timed or self._mark is None or self._options.quiet:
            return None
        return self._queries.wait()

    def refresh(self) -> None:
        """Read what is new in the registry, before a write would be refused for it."""
        self._queries.refresh()

    # --- writing ----------------------------------------------------------------------------------------

    def _write_batch(self, batch: PendingBatch, rows: StoredRows, mark: Mark) -> None:
        """Write a group and take over its rows; its dead letters are written already."""
        cache, delta = self._cache.rows, batch.index_delta(self._view.index, self._cache.rows)
        self._write(batch, rows, mark, delta=delta)
        cache.update(batch.rows)
        if self._queries.timed:
            for key, cached in batch.rows.items():
                self._queries.update(key, cached[0])
        if self.events is not None:
            for key, cached in batch.rows.items():
                self.events.update(key, cached[0])
        self._trim()
        self.folded += batch.records
        self.dead += batch.dead

    def _trim(self) -> None:
        # The next event needs all rows.
        self._cache.trim(len(self.events) if self.events is not None else 0)

    def _write(
        self,
        batch: PendingBatch,
        rows: StoredRows,
        mark: Mark,
        *,
        delta: IndexDelta | None = None,
        until: int = 0,
    ) -> int:
        """Match and write a group, again if the registry has changed; return how many changes it has.

        ``until`` is the time to match at, where only time passes.
        """
        assert self._opened is not None
        queries = self._queries
        reached = self.events.reached if self.events is not None else None
        last = self._records.last
        while True:
            # 1. Match every step with the queries that are known.
            concerned: dict[int, int] = {}
            changes: list[Change] = []
            for step in batch.steps:
                change = queries.match(step, len(changes), concerned)
                if change is not None:
                    changes.append(change)
            group = ChangeGroup(
                build=self.build,
                partition=self.partition,
                epoch=self.claim.epoch,
                generation=self.claim.generation,
                token=self._opened.token,
                number=self._written + 1,
                version=queries.version,
                follows=self._mark,
                mark=mark,
                partition_state=write_state(self._records.watermark, self._records.sources, reached),
                fingerprint="" if last is None or last.offset != mark.offset else str(last),
                count=len(changes),
                blob=encode_changes(changes) if changes else b"",
                rows=rows,
                queries=concerned,
                records=batch.records,
                dead=batch.dead,
                index_added=delta.added if delta is not None else (),
                index_removed=delta.removed if delta is not None else (),
                clock=0 if self._options.quiet else until or queries.clock,
            )
            # 2. Write it. Queries that came meanwhile are matched, too (R15).
            try:
                self._store.write(group)
            except Behind as behind:
                queries.catch_up(behind)
                if until:
                    return 0  # which rows are due may have changed
                continue
            # 3. Only now this reducer has moved on.
            self._written += 1
            self._mark = mark
            if self.events is not None:
                self.events.stored = self.events.reached
            queries.written(group.clock)
            return len(changes)
