"""Read the rows of a query, true at one position, while writes go on.

Rows requested by key, and rows that the view indexes by a value that every row of the query has, come in one
atomic read. Everything else comes in pages, and the log since the first page says what changed meanwhile:

* Of a **registered** query every log entry says what it means to the query (R18), so the entries are
  replayed over the rows, as a subscriber would. A page may be ahead of the entries replayed over it, but
  every field that they change ends at its last value, and a row that joins the query comes whole: after the
  replay every row is as it was at the last entry, whatever its page contained.
* Of a query that is **not registered** nobody matched the entries, so they only name the rows that changed:

  1. Read the pages, from some position on. A row that does not change after that is as its page said.
  2. Read the log since then: it names the rows that changed. Read these again, together, true at one number.
  3. Rows that changed between the end of that log and that number are still missing. Read them once more: one
     that did not change again is as it was at that number. If any did, repeat from 2.

  Rows that were read earlier are treated like a page, so known rows are updated by steps 2 and 3 alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import msgspec

from distributary.errors import ResultTooLarge
from distributary.model.build import Build
from distributary.model.change import Change
from distributary.model.query import Query
from distributary.store.build_scan import (
    Charge,
    StaleRead,
    belongs,
    find_at_once,
    free_of_charge,
    read_log,
    read_pages,
)
from distributary.store.contract import ReaderStore
from distributary.store.store_types import Row, RowPage

PAGE_ROWS = 2_000
ATTEMPTS = 5
ROUNDS = 10
ROW_BYTES = 250
"""Memory of a row besides its strings."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


class ClockUnknown(Exception):
    """Rows of a reducer that has just started have no time yet to evaluate ``now()`` at."""


class RegisteredRows(NamedTuple):
    """The keys and JSON of a registered query's rows at (epoch, seq)."""

    epoch: str
    seq: int
    rows: list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class QueryRows:
    """A query's rows at (epoch, seq), and their ``size`` in memory. Shared, so never changed."""

    epoch: str
    seq: int
    rows: dict[str, Row]
    size: int


# --- registered queries -----------------------------------------------------------------------------------


async def read_registered(
    store: ReaderStore,
    build: Build,
    query: Query,
    number: int,
    *,
    page: int = PAGE_ROWS,
    index: Collection[str] = (),
    charge: Charge = free_of_charge,
) -> RegisteredRows:
    """Read the rows of a query that is registered under a number; ``index`` names the view's indexed fields.

    Raises StaleRead when the data moves too often, ClockUnknown, and the store's own errors.
    """
    found = await find_at_once(store, build, query, index)
    if found is not None:
        return RegisteredRows(found.epoch, found.seq, list(_matching(query, found.rows, found.clocks)))
    for _ in range(ATTEMPTS):
        try:
            return await _replayed(store, build, query, number, page, charge)
        except StaleRead:
            continue
    raise StaleRead


async def _replayed(
    store: ReaderStore, build: Build, query: Query, number: int, count: int, charge: Charge
) -> RegisteredRows:
    first: RowPage | None = None
    rows: dict[str, bytes] = {}
    async with aclosing(read_pages(store, build, count, charge=charge)) as parts:
        async for part in parts:
            first = first or part
            rows.update(_matching(query, part.rows, part.clocks))
    assert first is not None
    if not first.cursor:  # one page is one atomic read
        return RegisteredRows(first.epoch, first.seq, list(rows.items()))
    top = first.seq
    async for entry in read_log(store, build, first.epoch, first.seq, charge=charge):
        for seq, change in entry.numbered():
            if seq > first.seq:
                _replay(rows, change, number)
        top = entry.last
    return RegisteredRows(first.epoch, top, list(rows.items()))


class _FieldChanges(msgspec.Struct):
    """The ``fields`` of a change, as an object."""

    changed: dict[str, msgspec.Raw]
    gone: list[str] = []


_field_changes = msgspec.json.Decoder(_FieldChanges)


def _replay(rows: dict[str, bytes], change: Change, number: int) -> None:
    key = change.key
    if number in change.adds:
        rows[key] = change.row
    elif number in change.removes:
        rows.pop(key, None)
    elif number in change.changes and key in rows:  # if it is not, its page was read after it left
        delta = _field_changes.decode(b"{%b}" % change.fields)
        fields = _fields.decode(rows[key]) | delta.changed
        rows[key] = _encode({name: value for name, value in fields.items() if name not in delta.gone})


def _matching(
    query: Query, rows: Sequence[tuple[str, Row]], clocks: Mapping[int, int]
) -> Iterator[tuple[str, bytes]]:
    """Yield the rows that belong to a query, each at the time of the reducer that owns it."""
    if query.keys is None and not query.timed:
        yield from compress(
            [(key, row.json) for key, row in rows], query.match_rows([row.json for _, row in rows])
        )
        return
    timed = query.timed
    for key, row in rows:
        now = 0
        if timed:
            if row.owner not in clocks:
                raise ClockUnknown
            now = clocks[row.owner]
        if belongs(query, key, row.json, now):
            yield key, row.json


# --- queries that are not registered ----------------------------------------------------------------------


async def read_unregistered(
    store: ReaderStore,
    build: Build,
    query: Query,
    before: QueryRows | None = None,
    *,
    max_bytes: int,
    now_ms: int = 0,
    page: int = PAGE_ROWS,
    index: Collection[str] = (),
    charge: Charge = free_of_charge,
) -> QueryRows:
    """Read the query's rows; ``before`` are rows of the same query from an earlier read, to be updated.

    ``index`` names the view's indexed fields.

    ``now_ms`` is the time at which a timed query is evaluated: the result is the rows of one position that
    match at that time. Rows of such a query come and go without a change, so do not pass ``before`` with it.
    Raises StaleRead when the data moves too often, ResultTooLarge over ``max_bytes``, and the store's own
    errors.
    """
    found = await find_at_once(store, build, query, index)
    if found is not None:
        rows = _Rows(query, max_bytes, now_ms)
        rows.update(found.rows)
        return rows.at(found.epoch, found.seq)
    for _ in range(ATTEMPTS):
        known, before = before, None
        try:
            if known is not None:
                rows = _Rows(query, max_bytes, now_ms, known)
                return await _brought_up_to_date(store, build, rows, known.epoch, known.seq, charge)
            rows = _Rows(query, max_bytes, now_ms)
            epoch, seq, complete = await _page_rows(store, build, rows, page, charge)
            if complete:
                return rows.at(epoch, seq)
            return await _brought_up_to_date(store, build, rows, epoch, seq, charge)
        except StaleRead:
            continue
    raise StaleRead


class _Rows:
    """The rows read so far that belong to a query."""

    def __init__(self, query: Query, max_bytes: int, now_ms: int, before: QueryRows | None = None) -> None:
        self._rows: dict[str, Row] = dict(before.rows) if before is not None else {}
        self._size = before.size if before is not None else 0
        self._query = query
        self._max_bytes = max_bytes
        self._now = now_ms

    def at(self, epoch: str, seq: int) -> QueryRows:
        """Return the rows, which are true at a position."""
        return QueryRows(epoch, seq, self._rows, self._size)

    def update(self, rows: Sequence[tuple[str, Row]]) -> None:
        """Set rows to what they are now. Raises ResultTooLarge."""
        found, size = self._rows, self._size
        matches = self._query.match_rows([row.json for _, row in rows], self._now)
        for (key, row), match in zip(rows, matches, strict=True):
            if key in found:
                size -= _row_size(key, found.pop(key))
            if match:
                found[key] = row
                size += _row_size(key, row)
        self._size = size
        if size > self._max_bytes:
            raise ResultTooLarge(
                f'the requested rows of the view "{self._query.view}" exceed {self._max_bytes:,} bytes',
                hint="narrow the request with where or keys, or raise control.cache_bytes",
            )

    def remove(self, keys: Iterable[str]) -> None:
        """Remove rows that do not exist any more."""
        for key in keys:
            if key in self._rows:
                self._size -= _row_size(key, self._rows.pop(key))


def _row_size(key: str, row: Row) -> int:
    return len(key) + len(row.json) + len(row.state) + ROW_BYTES


async def _page_rows(
    store: ReaderStore, build: Build, rows: _Rows, count: int, charge: Charge
) -> tuple[str, int, bool]:
    """Read all pages; return the first one's position, and whether it was the only one (so true at it)."""
    first: RowPage | None = None
    async with aclosing(read_pages(store, build, count, charge=charge)) as parts:
        async for part in parts:
            first = first or part
            rows.update(part.rows)
    assert first is not None
    return first.epoch, first.seq, not first.cursor


async def _brought_up_to_date(
    store: ReaderStore, build: Build, rows: _Rows, epoch: str, since: int, charge: Charge
) -> QueryRows:
    """Bring rows that were read at or after ``since`` to one position (steps 2 and 3 of the module)."""
    moved: set[str] = set()
    for _ in range(ROUNDS):
        changed, top = await _changed_keys(store, build, epoch, since, charge)
        moved.update(changed)
        if not moved:
            return rows.at(epoch, top)
        seq = await _read_again(store, build, rows, epoch, moved)
        late = await _changed_between(store, build, epoch, top, seq, charge) - moved
        if not late:
            return rows.at(epoch, seq)
        last = await _read_again(store, build, rows, epoch, late)
        if not late & await _changed_between(store, build, epoch, seq, last, charge):
            return rows.at(epoch, seq)
        moved |= late
        since = seq
    raise StaleRead


async def _read_again(store: ReaderStore, build: Build, rows: _Rows, epoch: str, keys: set[str]) -> int:
    """Read rows once more, together; return the number they are true at."""
    found = await store.rows(build, sorted(keys))
    if found.epoch != epoch:
        raise StaleRead
    rows.remove(keys - {key for key, _ in found.rows})
    rows.update(found.rows)
    return found.seq


async def _changed_between(
    store: ReaderStore, build: Build, epoch: str, after: int, until: int, charge: Charge
) -> set[str]:
    """Return the keys of the rows that changed after a number, up to another one."""
    if until <= after:
        return set()
    changed, _ = await _changed_keys(store, build, epoch, after, charge)
    return {key for key, seq in changed.items() if seq <= until}


async def _changed_keys(
    store: ReaderStore, build: Build, epoch: str, after: int, charge: Charge
) -> tuple[dict[str, int], int]:
    """Return the rows that changed after a number, each with its first change, and the end of that log."""
    found: dict[str, int] = {}
    top = after
    async for entry in read_log(store, build, epoch, after, charge=charge):
        for seq, change in entry.numbered():
            if seq > after:
                found.setdefault(change.key, seq)
        top = entry.last
    return found, top
