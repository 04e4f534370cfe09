"""Results that are kept for a while, so that all pages of a walk show one state.

A result is known by its *tag*: the hash of the query, the epoch, the number of its newest row and how many
rows it has. A row that joins or changes has a number above all that were there before, so where the newest
number is the same, rows can only have left; and where the count is the same too, none has. So the same tag
means the same rows, in whatever process they were read. Rows of a timed query come and go without a change:
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
"""What a result costs besides its rows."""
READS = 2
"""How many whole views are read at once; more would only hold more memory."""


def tag_of(query: Query, state: QueryRows) -> str:
    """Name the rows of a state."""
    newest = max((row.seq for row in state.rows.values()), default=0)
    text = f"{query.view}\n{query.id}\n{state.epoch}\n{newest}\n{len(state.rows)}"
    if query.timed:
        text += "".join([f"\n{state.rows[key].seq} {key!r}" for key in sorted(state.rows)])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Result:
    """The rows of a query, ordered by key.

    ``position`` and ``time`` (the store's ms) say when they were first seen to be so, and do not change;
    ``state`` is the newest state that is known to have these rows. ``changed`` is the time since which they
    were surely these: before, the view changed, and there may have been others for a while.
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
        """What a format has found out about all the rows, for its further pages."""

    @property
    def known(self) -> Position:
        """The newest position at which the rows are known to be these."""
        return Position(self.state.epoch, self.state.seq)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.state.rows)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the rows, in order."""
        return sorted(self.state.rows)

    def rows(self, at: int = 0, limit: int | None = None) -> list[tuple[str, bytes]]:
        """Some rows from a place on; all, where no limit is given."""
        held = self.state.rows
        return [(key, held[key].json) for key in islice(self.keys, at, None if limit is None else at + limit)]


@dataclass(slots=True)
class _Kept:
    result: Result
    used: float


@dataclass
class Results:
    """Holds results up to ``most`` bytes, each until nobody has asked for it for ``keep`` seconds.

    ``reading`` is held by those who read a whole view.
    """

    most: int
    keep: float = KEEP_SECONDS
    clock: Callable[[], float] = time.monotonic
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS))
    size: int = 0
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _newest: dict[tuple[Build, str], str] = field(default_factory=dict)
    _locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @property
    def one(self) -> int:
        """How large a single result may be."""
        return self.most // 2

    def lock(self, query: Query) -> asyncio.Lock:
        """One reads a query at a time: who waited finds the result and has little left to read."""
        name = (query.view, query.id)
        found = self._locks.get(name)
        if found is None:
            found = self._locks[name] = asyncio.Lock()
        return found

    def get(self, tag: str) -> Result | None:
        """Find the result of a tag."""
        self._sweep()
        kept = self._kept.pop(tag, None)
        if kept is None:
            return None
        kept.used = self.clock()
        self._kept[tag] = kept  # to the end: the order is that of use
        return kept.result

    def newest(self, build: Build, query: Query) -> Result | None:
        """Find the newest result of a query."""
        tag = self._newest.get((build, query.id))
        return self.get(tag) if tag is not None else None

    def add(self, result: Result) -> Result:
        """Keep a result; returns the one of the same rows that is there already, brought up to date."""
        there = self.get(result.tag)
        if there is not None:
            if there.state.seq < result.state.seq or result.query.timed:
                there.state, there.changed = result.state, result.changed
            result = there
        else:
            self._kept[result.tag] = _Kept(result, self.clock())
            self.size += result.size
        self._newest[result.build, result.query.id] = result.tag
        self._sweep()
        return result

    def _sweep(self) -> None:
        """Let go of what was not used for long, and of the longest unused while there is too much."""
        oldest = self.clock() - self.keep
        while self._kept:
            tag, kept = next(iter(self._kept.items()))
            if kept.used > oldest and self.size <= self.most:
                return
            result = kept.result
            del self._kept[tag]
            self.size -= result.size
            if self._newest.get((result.build, result.query.id)) == tag:
                del self._newest[result.build, result.query.id]
