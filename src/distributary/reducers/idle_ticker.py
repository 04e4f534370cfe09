"""Lets time pass for a view in micro-batches, where no task is waiting between two batches (R11).

The driver takes an idle view's partitions itself and writes what is due, fenced as a task would. A batch that
begins meanwhile takes its partition back, and one that was under way opens again. A record counts once either
way, since both continue from the store's mark.
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
"""How often in a row a partition ticks while more is due."""


class IdleTicker:
    """For one thread. ``create`` returns a reducer of a partition that is not open yet."""

    def __init__(
        self, store: WriterStore, build: Build, view: View, partitions: int, create: Callable[[int], Reducer]
    ) -> None:
        self._store = store
        self._build = build
        self._view = view
        self._partitions = partitions
        self._create = create
        self._open: dict[int, Reducer] = {}
        self._version = -1
        self._timed = False

    def step(self) -> int:
        """Write what is due; return how many rows were removed, or entered or left a query."""
        self._read_registry()
        return sum(self._tick(partition) for partition in range(self._partitions))

    def _read_registry(self) -> None:
        """Find out whether any query contains now()."""
        behind = self._store.registry_diff(self._build.view, self._version)
        if behind is None:
            return
        self._version = behind.version
        if behind.changes is None:
            texts = [query.text for query in self._store.registry(self._build.view)[1]]
        else:
            texts = [change.text for change in behind.changes if change.text is not None]
        self._timed = self._timed or any(Query.load(self._build.view, text).timed for text in texts)

    def _tick(self, partition: int) -> int:
        ttl = self._view.ttl is not None and self._store.expired(self._build, partition, 1)[1]
        if not ttl and not self._timed:
            return 0
        try:
            reducer = self._open.get(partition)
            if reducer is None:
                reducer = self._create(partition)
                reducer.open()
                self._open[partition] = reducer
            written = 0
            reducer.refresh()
            for _ in range(TURNS):
                written += reducer.expire() + reducer.tick()
                if reducer.wait() != 0.0:
                    break
        except (Fenced, StoreWentBack):
            written = 0  # a task has the partition: time passes there, and here when it is idle again
            self._open.pop(partition, None)
        if not self._timed:
            self._open.pop(partition, None)
        return written
