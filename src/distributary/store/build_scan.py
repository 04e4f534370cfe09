"""What one build of a view holds, read piece by piece: rows found at once, pages of rows, and the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection

import msgspec

from distributary.model.build import Build
from distributary.model.change import Entry
from distributary.model.query import Query
from distributary.store.contract import ReaderStore
from distributary.store.store_types import RowPage, RowsRead

LOG_CHANGES = 5_000
INDEXED_ROWS = 10_000
"""With more rows than this under one value, reading pages is cheaper than finding them one by one."""
LOOP_TURNS = 6
"""Turns of the event loop until a request is on its way to the store."""

Charge = Callable[[int], object]
"""Called with the number of rows, or of changes, that the store has read."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class StaleRead(Exception):
    """The data moved during a read (another epoch, or the log was cut): check the build, then read again."""


def free_of_charge(rows: int) -> None:
    """Implements ``Charge`` without a limit."""


def belongs(query: Query, key: str, json: bytes, now_ms: int = 0) -> bool:
    """Return whether a stored row belongs to a query at a time; a row that is not an object has no fields."""
    if query.filter is None:
        return query.keys is None or key in query.keys
    try:
        fields = _fields.decode(json)
    except msgspec.MsgspecError:
        fields = {}
    return query.matches(key, fields, now_ms)


async def find_at_once(
    store: ReaderStore, build: Build, query: Query, index: Collection[str]
) -> RowsRead | None:
    """Read in one atomic read what includes all rows of a query; None when that is not possible."""
    if query.keys is not None:
        return await store.rows(build, query.keys)
    for path, value in query.equality:
        if len(path) == 1 and path[0] in index:
            found = await store.find_by_index(build, path[0], value, INDEXED_ROWS)
            if found is not None:
                return found
    return None


async def read_pages(
    store: ReaderStore, build: Build, count: int, *, charge: Charge = free_of_charge
) -> AsyncGenerator[RowPage, None]:
    """Yield all pages of a build; the store reads the next one while the caller has one.

    Raises StaleRead when the epoch changes between two.
    """
    part = await store.page(build, 0, count)
    charge(len(part.rows))
    epoch = part.epoch
    while part.cursor:
        following = asyncio.create_task(_page(store, build, part.cursor, count))
        try:
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)
            yield part
            part = await following
        finally:
            following.cancel()
        charge(len(part.rows))
        if part.epoch != epoch:
            raise StaleRead
    yield part


async def _page(store: ReaderStore, build: Build, cursor: int, count: int) -> RowPage:
    return await store.page(build, cursor, count)


async def read_log(
    store: ReaderStore, build: Build, epoch: str, after: int, *, charge: Charge = free_of_charge
) -> AsyncIterator[Entry]:
    """Yield all entries that end after a number, up to the top, reading portions as they are consumed.

    Raises StaleRead when any of them is missing.
    """
    while True:
        read = await store.log(build, after, LOG_CHANGES)
        if read.epoch != epoch or read.seq < after:
            raise StaleRead
        charge(read.entries[-1].last - read.entries[0].first + 1 if read.entries else 0)
        for entry in read.entries:
            if entry.first > after + 1:
                raise StaleRead
            after = max(after, entry.last)
            yield entry
        if after >= read.seq:
            return
        if not read.entries:
            raise StaleRead
