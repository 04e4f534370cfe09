"""Lets time pass for a view in micro-batches, where no task waits between two batches (R11).

The driver takes a quiet view's partitions itself and writes what is due, fenced as a task would. A batch that
begins meanwhile takes its partition back, and one that was under way opens again: a record counts once
either way, since both go by the store's mark.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.model.build import Build
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers.reducer import Reducer, StoreWentBack
from distributary.store.contract import WriterStore
from distributary.store.errors import Fenced

TURNS = 50
"""How often in a row a partition's clock is looked at while more is due."""


class Timekeeper:
    """For one thread. ``make`` gives a reducer of a partition that is not open yet."""

    def __init__(
        self, store: WriterStore, build: Build, view: View, partitions: int, make: Callable[[int], Reducer]
    ) -> None:
        self._store = store
        self._build = build
        self._view = view
        self._partitions = partitions
        self._make = make
        self._open: dict[int, Reducer] = {}
        self._version = -1
        self._timed = False

    def step(self) -> int:
        """Write what is due; return how many rows changed, or came to or left a query."""
        self._look()
        return sum(self._pass(partition) for partition in range(self._partitions))

    def _look(self) -> None:
        """Learn whether any query asks for the time."""
        missed = self._store.registry_diff(self._build.view, self._version)
        if missed is None:
            return
        self._version = missed.version
        if missed.changes is None:
            texts = [query.text for query in self._store.registry(self._build.view)[1]]
        else:
            texts = [change.text for change in missed.changes if change.text is not None]
        self._timed = self._timed or any(Query.load(self._build.view, text).timed for text in texts)

    def _pass(self, partition: int) -> int:
        ttl = self._view.ttl is not None and self._store.expired(self._build, partition, 1)[1]
        if not ttl and not self._timed:
            return 0
        try:
            reducer = self._open.get(partition)
            if reducer is None:
                reducer = self._make(partition)
                reducer.open()
                self._open[partition] = reducer
            written = 0
            reducer.refresh()
            for _ in range(TURNS):
                written += reducer.expire() + reducer.tick()
                if reducer.waits() != 0.0:
                    break
        except (Fenced, StoreWentBack):
            written = 0  # a task has the partition: time passes there, and here when it is quiet again
            self._open.pop(partition, None)
        if not self._timed:
            self._open.pop(partition, None)
        return written
