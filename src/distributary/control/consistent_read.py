"""Read the rows of a query that nobody has registered, true at one position, while writes go on.

A registered query is told by every log entry what it means to it (``publisher/hub/snapshot.py``, R18). Here
nobody matched the entries, so they only say which rows changed: those are read again. Rows asked for by key
come in one atomic read. Everything else:

1. Pages are read, from some position on; a row that does not change after that is as its page said.
2. The log since then names the rows that changed. They are read again, together, true at one number.
3. Rows that changed between the end of that log and that number are missing still. They are read once
   more: one that did not change again is as it was at that number. If one did, all is repeated from 2.

What was read before is a page like any other, so a known state is brought up to date by steps 2 and 3 alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from distributary.errors import ResultTooLarge
from distributary.model.build import Build
from distributary.model.query import Query
from distributary.publisher.hub.snapshot import INDEXED_ROWS, PAGE_ROWS, Moved, pages, read_log
from distributary.store.contract import Page, ReaderStore, Row

ATTEMPTS = 5
ROUNDS = 10
ROW_BYTES = 250
"""What a row costs in memory besides its texts."""


@dataclass(frozen=True, slots=True)
class State:
    """A query's rows at (epoch, seq). Never changed once made, since others may share it."""

    epoch: str
    seq: int
    rows: dict[str, Row]
    size: int


async def read(
    store: ReaderStore,
    build: Build,
    query: Query,
    before: State | None = None,
    *,
    most: int,
    now_ms: int = 0,
    page: int = PAGE_ROWS,
    index: Collection[str] = (),
) -> State:
    """Read the query's rows; ``before`` is a state of the same query that may help.

    ``index`` names the fields by whose value the view's rows can be found in one atomic read.

    ``now_ms`` is the time at which a timed query is asked: its rows are those of one position that match at
    that one moment. It has no use for a state of before, since rows come and go without a change.
    Raises Moved when the ground moves too often, ResultTooLarge over ``most`` bytes; the store's own
    errors pass.
    """
    if query.keys is not None:
        named = await store.rows(build, query.keys)
        rows = _Rows(query, most, now_ms)
        rows.take(named.rows)
        return State(named.epoch, named.seq, rows.held, rows.size)
    for path, value in query.equality:
        if len(path) == 1 and path[0] in index:
            found = await store.find(build, path[0], value, INDEXED_ROWS)
            if found is not None:
                rows = _Rows(query, most, now_ms)
                rows.take(found.rows)
                return State(found.epoch, found.seq, rows.held, rows.size)
    for _ in range(ATTEMPTS):
        known, before = before, None
        try:
            if known is not None:
                rows = _Rows(query, most, now_ms, known)
                return await _settle(store, build, rows, known.epoch, known.seq)
            rows = _Rows(query, most, now_ms)
            epoch, seq, whole = await _pages(store, build, rows, page)
            if whole:
                return State(epoch, seq, rows.held, rows.size)
            return await _settle(store, build, rows, epoch, seq)
        except Moved:
            continue
    raise Moved


class _Rows:
    """The rows that belong to a query, of those that were looked at."""

    def __init__(self, query: Query, most: int, now_ms: int, state: State | None = None) -> None:
        self.held: dict[str, Row] = dict(state.rows) if state is not None else {}
        self.size = state.size if state is not None else 0
        self._query = query
        self._most = most
        self._now = now_ms

    def take(self, rows: Sequence[tuple[str, Row]]) -> None:
        """Take in how some rows are now."""
        held, size = self.held, self.size
        belongs = self._query.sift([row.json for _, row in rows], self._now)
        for (key, row), belonging in zip(rows, belongs, strict=True):
            if key in held:
                size -= _size(key, held.pop(key))
            if belonging:
                held[key] = row
                size += len(key) + len(row.json) + len(row.state) + ROW_BYTES
        self.size = size
        query = self._query
        if self.size > self._most:
            raise ResultTooLarge(
                f'the rows asked for of the view "{query.view}" are over {self._most:,} bytes',
                hint="narrow them with where or keys, or raise control.cache_bytes",
            )

    def drop(self, keys: Iterable[str]) -> None:
        """Take in that some rows are not there."""
        for key in keys:
            if key in self.held:
                self.size -= _size(key, self.held.pop(key))


def _size(key: str, row: Row) -> int:
    return len(key) + len(row.json) + len(row.state) + ROW_BYTES


async def _pages(store: ReaderStore, build: Build, rows: _Rows, count: int) -> tuple[str, int, bool]:
    """Read all pages; return from which position on, and whether one page was all (so true at it)."""
    first: Page | None = None
    async with aclosing(pages(store, build, count)) as parts:
        async for part in parts:
            first = first or part
            rows.take(part.rows)
    assert first is not None
    return first.epoch, first.seq, not first.cursor


async def _settle(store: ReaderStore, build: Build, rows: _Rows, epoch: str, since: int) -> State:
    """Bring rows that were read at or after ``since`` to one position."""
    moved: set[str] = set()
    for _ in range(ROUNDS):
        changed, top = await _changed(store, build, epoch, since)
        moved.update(changed)
        if not moved:
            return State(epoch, top, rows.held, rows.size)
        seq = await _again(store, build, rows, epoch, moved)
        late = await _between(store, build, epoch, top, seq) - moved
        if not late:
            return State(epoch, seq, rows.held, rows.size)
        last = await _again(store, build, rows, epoch, late)
        if not late & await _between(store, build, epoch, seq, last):
            return State(epoch, seq, rows.held, rows.size)
        moved |= late
        since = seq
    raise Moved


async def _again(store: ReaderStore, build: Build, rows: _Rows, epoch: str, keys: set[str]) -> int:
    """Read rows once more, together; return the number they are true at."""
    wanted = sorted(keys)
    found = await store.rows(build, wanted)
    if found.epoch != epoch:
        raise Moved
    rows.drop(keys - {key for key, _ in found.rows})
    rows.take(found.rows)
    return found.seq


async def _between(store: ReaderStore, build: Build, epoch: str, after: int, until: int) -> set[str]:
    """Name the rows that changed after a number, up to another one."""
    if until <= after:
        return set()
    changed, _ = await _changed(store, build, epoch, after)
    return {key for key, seq in changed.items() if seq <= until}


async def _changed(store: ReaderStore, build: Build, epoch: str, after: int) -> tuple[dict[str, int], int]:
    """Give the rows that changed after a number, each with its first change, and up to where that is all."""
    found: dict[str, int] = {}
    top = after
    async for entry in read_log(store, build, epoch, after):
        for seq, change in entry.numbered():
            if seq > after:
                found.setdefault(change.key, seq)
        top = entry.last
    return found, top
