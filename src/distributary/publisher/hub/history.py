"""A part of a query's history, out of the log: forwards from a position, or backwards from one."""

from __future__ import annotations

from typing import NamedTuple

from distributary.auth.metering import charge_rows
from distributary.model.build import Build
from distributary.model.change import data_for
from distributary.model.field_mask import FieldMask
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import Publication, project_publications
from distributary.publisher.hub.resume import SnapshotRequired, decide
from distributary.store import build_scan
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.store_types import QueryState

FIRST_STEP = 256
"""How many changes of the view are read first when going backwards; every further step is twice that."""


class History(NamedTuple):
    """The position that the view is at, and the publications."""

    epoch: str
    seq: int
    publications: list[Publication]


async def read_forwards(
    store: ReaderStore,
    build: Build,
    query: Query,
    since: Position | None,
    *,
    limit: int,
    fields: FieldMask | None = None,
) -> History:
    """Read at most ``limit`` publications after a position (None: the oldest there are).

    Raises Refused (112) when some of them are gone, StaleRead when the data moves.
    """
    state = await _state(store, query)
    if since is None:
        after = max(state.since, state.floor)
    else:
        decision = decide(since, state)
        if isinstance(decision, SnapshotRequired):
            raise Refused(codes.UNRECOVERABLE)
        after = decision.after
    found: list[Publication] = []
    while len(found) < limit and after < state.seq:
        first, last, read = await _read(store, build, state, after)
        if first > after + 1:
            raise StaleRead
        found += project_publications(fields, [one for one in read if one[0] <= state.seq])
        after = last
    return History(state.epoch, state.seq, found[:limit])


async def read_backwards(
    store: ReaderStore,
    build: Build,
    query: Query,
    since: Position | None,
    *,
    limit: int,
    fields: FieldMask | None = None,
) -> History:
    """Read at most ``limit`` publications before a position (None: the newest), the newest first.

    Where the log ends the history ends. Raises Refused (112) for a position of another epoch or ahead of
    the view, StaleRead when the data moves.
    """
    state = await _state(store, query)
    before = state.seq + 1
    if since is not None:
        if since.epoch != state.epoch or since.seq > before:
            raise Refused(codes.UNRECOVERABLE)
        before = since.seq
    oldest = max(state.since, state.floor)
    found: list[Publication] = []
    step = FIRST_STEP
    while len(found) < limit and before > oldest + 1:
        start = max(oldest, before - 1 - step)
        read, cut = await _between(store, build, state, start, before)
        found += reversed(project_publications(fields, read))
        if cut:
            break
        before, step = start + 1, step * 2
    return History(state.epoch, state.seq, found[:limit])


async def _between(
    store: ReaderStore, build: Build, state: QueryState, after: int, before: int
) -> tuple[list[Publication], bool]:
    """Read the publications between two numbers; also return whether the older ones are gone by now."""
    found: list[Publication] = []
    cut = False
    start = after
    while after < before - 1:
        first, last, read = await _read(store, build, state, after)
        if first > after + 1:
            # The log was cut while it was read: what came before is gone, which is fine at the oldest end.
            if after != start:
                raise StaleRead
            cut = True
        found += [one for one in read if one[0] < before]
        after = last
    return found, cut


async def _read(
    store: ReaderStore, build: Build, state: QueryState, after: int
) -> tuple[int, int, list[Publication]]:
    """Read a portion of the log: its first and last number, and what it says to the query."""
    read = await store.log(build, after, build_scan.LOG_CHANGES)
    if read.epoch != state.epoch or not read.entries:
        raise StaleRead
    charge_rows(read.entries[-1].last - read.entries[0].first + 1)
    found = [
        (seq, data)
        for entry in read.entries
        for seq, change in entry.numbered()
        if seq > after and (data := data_for(change, state.number)) is not None
    ]
    return read.entries[0].first, read.entries[-1].last, found


async def _state(store: ReaderStore, query: Query) -> QueryState:
    state = await store.query_state(query.view, query.id)
    if state is None:
        raise StaleRead
    return state
