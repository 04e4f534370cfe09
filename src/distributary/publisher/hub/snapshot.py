"""Read a query's rows out of the store, true at one position.

Rows asked for by key come in one atomic read. Everything else comes in pages, while writes go on; the log
since the first page is then replayed over them, as a subscriber would. Rows that the view indexes by a value
that all of the query's have come in one read, too. A page may be ahead of the entries
that are replayed over its rows, but every field that they touch ends at its last value, and a row that joins
the query comes whole, so after the replay every row is as it was at the last entry, whatever its page said.
The query must be registered before: then every entry tells what it means to the query.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from itertools import compress

import msgspec

from distributary.auth.metering import charge_rows
from distributary.model.build import Build
from distributary.model.change import Change, Entry
from distributary.model.field_mask import Fields
from distributary.model.query import Query
from distributary.publisher.codec import websocket_frames
from distributary.store.contract import Page, ReaderStore, Row

PAGE_ROWS = 2_000
TURNS = 6
"""Turns of the loop until a request is on its way to the store."""
LOG_CHANGES = 5_000
INDEXED_ROWS = 10_000
"""More rows than this under one value are not worth finding one by one."""
ATTEMPTS = 5

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Told(msgspec.Struct):
    """What a change says of a row's fields."""

    changed: dict[str, msgspec.Raw]
    gone: list[str] = []


_told = msgspec.json.Decoder(_Told)


class Timeless(Exception):
    """Rows have no time yet at which a query with ``now()`` could be asked: their reducer just starts."""


class Moved(Exception):
    """The ground moved under a read (another epoch, or the log was cut): look again, then read again."""


class Snapshot:
    """A query's rows at (epoch, seq), as JSON bytes; encoded once however many get it."""

    def __init__(self, epoch: str, seq: int, rows: list[tuple[str, bytes]], incomplete: bool = False) -> None:
        self.epoch = epoch
        self.seq = seq
        self.rows = rows
        self.incomplete = incomplete
        self._of: dict[str, Snapshot] = {}

    def of(self, fields: Fields | None) -> Snapshot:
        """The same with some fields of each row; made once for all who ask for the same."""
        if fields is None:
            return self
        found = self._of.get(fields.text)
        if found is None:
            rows = [(key, fields.project(json)) for key, json in self.rows]
            found = self._of[fields.text] = Snapshot(self.epoch, self.seq, rows, self.incomplete)
        return found

    @cached_property
    def _pairs(self) -> list[bytes]:
        return [b"[%b,%b]" % (websocket_frames.encode(key), json) for key, json in self.rows]

    @cached_property
    def size(self) -> int:
        """About how many bytes it is to send."""
        return sum(map(len, self._pairs)) + len(self._pairs)

    @cached_property
    def _all(self) -> bytes:
        return b",".join(self._pairs)

    def data(self, *, stale: bool) -> bytes:
        """Write all rows as one message."""
        return self._message(self._all, stale, more=False)

    def pages(self, *, stale: bool, size: int) -> list[bytes]:
        """Write the rows as messages of about ``size`` bytes; all but the last say that more come."""
        chunks: list[list[bytes]] = [[]]
        room = size
        for pair in self._pairs:
            if chunks[-1] and len(pair) > room:
                chunks.append([])
                room = size
            chunks[-1].append(pair)
            room -= len(pair)
        last = len(chunks) - 1
        return [self._message(b",".join(chunk), stale, more=i < last) for i, chunk in enumerate(chunks)]

    def _message(self, rows: bytes, stale: bool, *, more: bool) -> bytes:
        return b'{"op":"snapshot","rows":[%b],"stale":%b%b%b,"tier":"snapshot"}' % (
            rows,
            b"true" if stale else b"false",
            b',"incomplete":true' if self.incomplete else b"",
            b',"more":true' if more else b"",
        )


async def read(
    store: ReaderStore,
    build: Build,
    query: Query,
    number: int,
    *,
    page: int = PAGE_ROWS,
    index: Collection[str] = (),
) -> Snapshot:
    """Read the rows of a query that is registered under a number; ``index`` names the view's indexed fields.

    Raises Moved when the ground moves too often, Timeless; the store's own errors pass.
    """
    if query.keys is not None:
        named = await store.rows(build, query.keys)
        return Snapshot(named.epoch, named.seq, list(_of(query, named.rows, named.clocks)))
    for path, value in query.equality:
        if len(path) == 1 and path[0] in index:
            found = await store.find(build, path[0], value, INDEXED_ROWS)
            if found is not None:
                return Snapshot(found.epoch, found.seq, list(_of(query, found.rows, found.clocks)))
    for _ in range(ATTEMPTS):
        try:
            return await _paged(store, build, query, number, page)
        except Moved:
            continue
    raise Moved


async def _paged(store: ReaderStore, build: Build, query: Query, number: int, count: int) -> Snapshot:
    first: Page | None = None
    rows: dict[str, bytes] = {}
    async with aclosing(pages(store, build, count)) as parts:
        async for part in parts:
            first = first or part
            rows.update(_of(query, part.rows, part.clocks))
    assert first is not None
    if not first.cursor:
        return Snapshot(first.epoch, first.seq, list(rows.items()))
    top = first.seq
    async for entry in read_log(store, build, first.epoch, first.seq):
        for seq, change in entry.numbered():
            if seq > first.seq:
                _replay(rows, change, number)
        top = entry.last
    return Snapshot(first.epoch, top, list(rows.items()))


async def pages(store: ReaderStore, build: Build, count: int) -> AsyncGenerator[Page, None]:
    """Read all pages of a build; the store looks for the next while the caller has one.

    Raises Moved when the epoch changes between two.
    """
    part = await store.page(build, 0, count)
    charge_rows(len(part.rows))
    epoch = part.epoch
    while part.cursor:
        following = asyncio.create_task(_page(store, build, part.cursor, count))
        try:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            yield part
            part = await following
        finally:
            following.cancel()
        charge_rows(len(part.rows))
        if part.epoch != epoch:
            raise Moved
    yield part


async def _page(store: ReaderStore, build: Build, cursor: int, count: int) -> Page:
    return await store.page(build, cursor, count)


def _of(
    query: Query, rows: Sequence[tuple[str, Row]], clocks: Mapping[int, int]
) -> Iterator[tuple[str, bytes]]:
    """Those rows that belong to a query, each at the time of the reducer that tells of it."""
    if query.keys is None and not query.timed:
        yield from compress([(key, row.json) for key, row in rows], query.sift([row.json for _, row in rows]))
        return
    timed = query.timed
    for key, row in rows:
        now = 0
        if timed:
            if row.owner not in clocks:
                raise Timeless
            now = clocks[row.owner]
        if belongs(query, key, row.json, now):
            yield key, row.json


def _replay(rows: dict[str, bytes], change: Change, number: int) -> None:
    key = change.key
    if number in change.adds:
        rows[key] = change.row
    elif number in change.removes:
        rows.pop(key, None)
    elif number in change.changes and key in rows:  # where it is not, its page knew that it leaves later
        told = _told.decode(b"{%b}" % change.fields)
        fields = _fields.decode(rows[key]) | told.changed
        rows[key] = websocket_frames.encode(
            {name: value for name, value in fields.items() if name not in told.gone}
        )


async def read_log(store: ReaderStore, build: Build, epoch: str, after: int) -> AsyncIterator[Entry]:
    """Give all entries that end after a number, up to the top; they are read in portions as they are taken.

    Raises Moved when any of them is missing.
    """
    while True:
        read = await store.log(build, after, LOG_CHANGES)
        if read.epoch != epoch or read.seq < after:
            raise Moved
        charge_rows(read.entries[-1].last - read.entries[0].first + 1 if read.entries else 0)
        for entry in read.entries:
            if entry.first > after + 1:
                raise Moved
            after = max(after, entry.last)
            yield entry
        if after >= read.seq:
            return
        if not read.entries:
            raise Moved


def belongs(query: Query, key: str, json: bytes, now_ms: int = 0) -> bool:
    """Say whether a stored row belongs to a query at a time; a row that is no object has no fields."""
    if query.filter is None:
        return query.keys is None or key in query.keys
    try:
        fields = _fields.decode(json)
    except msgspec.MsgspecError:
        fields = {}
    return query.matches(key, fields, now_ms)
