"""The live queries of a view as one reducer matches them, at the time of the store's clock (R11, R15)."""

from __future__ import annotations

import time

from distributary.model.build import Build
from distributary.model.change import Change
from distributary.model.query import Query
from distributary.reducers.query_index import Matches, QueryIndex
from distributary.reducers.row_cache import RowCache
from distributary.reducers.row_json import Fields, write_object
from distributary.reducers.timed_queries import TimedQueries
from distributary.reducers.write_batch import Step
from distributary.store.contract import WriterStore
from distributary.store.errors import Behind
from distributary.store.store_types import Opened

DUE_ROWS = 2_000
"""Rows that one step of the clock looks at, about."""


def _local_clock() -> int:
    return int(time.time() * 1000)


class LiveQueries:
    """Finds the queries that a change concerns, and the rows that time moves into or out of queries."""

    def __init__(self, store: WriterStore, build: Build) -> None:
        self._store = store
        self._build = build
        self.index = QueryIndex()
        self.timed = TimedQueries()
        self.version = 0
        """The version of the registry that the index has."""
        self.clock = 0
        """The time (ms) at which rows are matched."""
        self.stored_clock = 0
        """The time at which the stored rows were last matched; 0 for never."""
        self._ahead = 0  # by how much the store's clock is ahead of this machine's
        self._cursor: int | None = None  # where the scan for times in rows continues; None: there is none

    def open(self, opened: Opened) -> None:
        """Start again with what the store has."""
        self.index.clear()
        self.timed.clear()
        self._cursor = None
        self.version = opened.version
        self.sync_clock()
        self.stored_clock = opened.clock
        self.clock = opened.clock or self.now()
        for query in opened.queries:
            self._add(query.number, query.text)

    def now(self) -> int:
        """The store's clock, as far as it is known here; it never goes back."""
        return max(self.clock, _local_clock() + self._ahead)

    def sync_clock(self) -> None:
        """Compare this machine's clock with the store's."""
        self._ahead = self._store.now() - _local_clock()

    def written(self, clock: int) -> None:
        """Take note that rows were written as matched at a time; 0: the time is as it was."""
        self.clock = self.stored_clock = clock or self.clock

    def match(self, step: Step, index: int, queries: dict[int, int]) -> Change | None:
        """Return a step as a change with the queries it concerns; None if time passed and it concerns none.

        ``queries`` collects, for each query, the index of the last change that concerns it.
        """
        if step.until:
            before = self.index.of(step.key, step.old, self.clock)
            after = self.index.of(step.key, step.new, step.until)
            matches = Matches(sorted(after - before), [], sorted(before - after))
            if not matches.adds and not matches.removes:
                return None
        else:
            matches = self.index.match(step.key, step.old, step.new, self.clock)
        for numbers in matches:
            for number in numbers:
                queries[number] = index
        row = step.json
        if matches.adds and not row and step.new is not None:
            row = write_object(step.new)
        return Change(step.key, step.time, step.fields, row, *matches)

    # --- the registry -----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read what is new in the registry, before a write would be refused for it."""
        behind = self._store.registry_diff(self._build.view, self.version)
        if behind is not None:
            self.catch_up(behind)

    def catch_up(self, behind: Behind) -> None:
        """Apply what the registry has more than is known here (R15)."""
        if behind.changes is None:
            self._read_whole()
            return
        for change in behind.changes:
            if change.text is None:
                self._remove(change.number)
            else:
                self._add(change.number, change.text)
        self._caught_up(behind.version)

    def _read_whole(self) -> None:
        """Read the whole registry, where its log of steps does not reach back to the known version."""
        version, queries = self._store.registry(self._build.view)
        registered = {query.number: query for query in queries}
        for number in [n for n in self.index.numbers() if n not in registered]:
            self._remove(number)
        known = set(self.index.numbers())
        for number, query in registered.items():
            if number not in known:
                self._add(number, query.text)
        self._caught_up(version)

    def _caught_up(self, version: int) -> None:
        """Go back to the stored clock: a new timed query's first rows are those of that time.

        Nothing differs for the others, since every row that becomes due moves the stored clock.
        """
        self.version = version
        if self.timed and self.stored_clock:
            self.clock = self.stored_clock

    def _add(self, number: int, text: str) -> None:
        query = Query.load(self._build.view, text)
        self.index.add(number, query)
        if query.timed and self.timed.add(number, query):
            self._cursor = 0

    def _remove(self, number: int) -> None:
        self.index.remove(number)
        self.timed.remove(number)

    # --- time -------------------------------------------------------------------------------------------

    def update(self, key: str, row: Fields | None) -> None:
        """Take over a row that was written."""
        self.timed.update(key, row)

    def scan(self, cache: RowCache) -> bool:
        """Take over the times of some more rows; False when all are known.

        Rows that are written meanwhile are taken over anyway.
        """
        if self._cursor is None:
            return False
        cursor, rows = cache.scan(self._cursor)
        for key, cached in rows:
            self.timed.update(key, cached[0])
        self._cursor = cursor or None
        return True

    def due(self) -> tuple[list[str], int]:
        """Return rows to match again, and the time to match them at."""
        return self.timed.due(self.clock, self.now(), DUE_ROWS)

    def wait(self) -> float | None:
        """Seconds until a row is due; 0.0 while rows are still scanned, None when no row will be."""
        if self._cursor is not None:
            return 0.0
        due = self.timed.next_due(self.clock)
        return None if due is None else max(0.0, (due - self.now()) / 1000)
