"""A cache of results, so that all pages of a result show the same rows.

A result is identified by its *tag*: the hash of the query, the epoch, the number (seq) of its newest row and
how many rows it has. A row that enters the query or changes gets a number above all before, so if the newest
number is the same, rows can only have left; and if the count is the same too, none has. So the same tag means
the same rows, in whatever process they were read. Rows of a timed query enter and leave without a change:
their tag is the hash of all keys and numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from distributary.model.build import Build
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.store.consistent_read import QueryRows

KEEP_SECONDS = 60.0
RESULT_BYTES = 2_000
"""Memory of a result besides its rows."""
READS = 2
"""How many whole views are read at once; more would only need more memory."""


def tag_of(query: Query, state: QueryRows) -> str:
    """Return the tag of the rows of a state."""
    newest = max((row.seq for row in state.rows.values()), default=0)
    text = f"{query.view}\n{query.id}\n{state.epoch}\n{newest}\n{len(state.rows)}"
    if query.timed:
        text += "".join([f"\n{state.rows[key].seq} {key!r}" for key in sorted(state.rows)])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Result:
    """The rows of a query, ordered by key.

    ``position`` and ``time`` (the store's ms) are those of the first read that returned these rows, and do
    not change; ``state`` is the newest state that has these rows. ``changed`` is the time since which they
    are known to be these: before it the view changed, and there may have been others for a while.
    """

    def __init__(self, tag: str, query: Query, build: Build, state: QueryRows, time: int) -> None:
        self.tag = tag
        self.query = query
        self.build = build
        self.state = state
        self.time = self.changed = time
        self.position = Position(state.epoch, state.seq)
        self.size = state.size + RESULT_BYTES
        self.shapes: dict[str, Any] = {}
        """What formats have found about all rows, such as their columns, for further pages."""

    @property
    def known(self) -> Position:
        """The newest position at which the rows were these."""
        return Position(self.state.epoch, self.state.seq)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.state.rows)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the rows, in order."""
        return sorted(self.state.rows)

    def rows(self, at: int = 0, limit: int | None = None) -> list[tuple[str, bytes]]:
        """Return rows from an index on; all without a limit."""
        rows = self.state.rows
        return [(key, rows[key].json) for key in islice(self.keys, at, None if limit is None else at + limit)]


@dataclass(slots=True)
class _Entry:
    result: Result
    used: float


@dataclass
class Results:
    """Caches results of up to ``max_bytes``, each until it was not used for ``keep`` seconds.

    ``reading`` limits how many whole views are read at once.
    """

    max_bytes: int
    keep: float = KEEP_SECONDS
    clock: Callable[[], float] = time.monotonic
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS))
    size: int = 0
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _newest: dict[tuple[Build, str], str] = field(default_factory=dict)
    _locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @property
    def max_result_bytes(self) -> int:
        """The maximum size of a single result."""
        return self.max_bytes // 2

    def lock(self, query: Query) -> asyncio.Lock:
        """Return the lock of a query: those who wait for it find the result and have little left to read."""
        name = (query.view, query.id)
        found = self._locks.get(name)
        if found is None:
            found = self._locks[name] = asyncio.Lock()
        return found

    def get(self, tag: str) -> Result | None:
        """Return the result of a tag, if it is cached."""
        self._sweep()
        entry = self._entries.pop(tag, None)
        if entry is None:
            return None
        entry.used = self.clock()
        self._entries[tag] = entry  # moved to the end: the order is that of use
        return entry.result

    def newest(self, build: Build, query: Query) -> Result | None:
        """Return the newest result of a query, if it is cached."""
        tag = self._newest.get((build, query.id))
        return self.get(tag) if tag is not None else None

    def add(self, result: Result) -> Result:
        """Cache a result; returns the cached one with the same rows, if there is one, updated."""
        cached = self.get(result.tag)
        if cached is not None:
            if cached.state.seq < result.state.seq or result.query.timed:
                cached.state, cached.changed = result.state, result.changed
            result = cached
        else:
            self._entries[result.tag] = _Entry(result, self.clock())
            self.size += result.size
        self._newest[result.build, result.query.id] = result.tag
        self._sweep()
        return result

    def _sweep(self) -> None:
        """Remove what was not used for long, and the least recently used while the cache is too large."""
        oldest = self.clock() - self.keep
        while self._entries:
            tag, entry = next(iter(self._entries.items()))
            if entry.used > oldest and self.size <= self.max_bytes:
                return
            result = entry.result
            del self._entries[tag]
            self.size -= result.size
            if self._newest.get((result.build, result.query.id)) == tag:
                del self._newest[result.build, result.query.id]
