"""A piece of a query's history, out of the log: forwards from a position, or backwards from one."""

from __future__ import annotations

from distributary.auth.metering import charge_rows
from distributary.model.build import Build
from distributary.model.change import data_for
from distributary.model.field_mask import Fields
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.websocket_frames import Pub
from distributary.publisher.hub import field_projection as chosen
from distributary.publisher.hub import resume
from distributary.store import build_scan
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.store_types import QueryState

FIRST_STEP = 256
"""How many changes of the view are looked at first when going backwards; every further step is twice that."""

Found = tuple[str, int, list[Pub]]
"""The epoch and the number that the view is at, and the publications."""


async def forwards(
    store: ReaderStore,
    build: Build,
    query: Query,
    since: Position | None,
    limit: int,
    fields: Fields | None = None,
) -> Found:
    """Read at most ``limit`` publications after a position (None: the oldest there are).

    Raises Refused (112) when some of them are not to be had any more, StaleRead when the ground moves.
    """
    state = await _state(store, query)
    if since is None:
        after = max(state.since, state.floor)
    else:
        decision = resume.decide(since, state)
        if isinstance(decision, resume.Anew):
            raise Refused(codes.UNRECOVERABLE)
        after = decision.after
    pubs: list[Pub] = []
    while len(pubs) < limit and after < state.seq:
        first, last, found = await _read(store, build, state, after)
        if first > after + 1:
            raise StaleRead
        pubs += chosen.some(fields, [pub for pub in found if pub[0] <= state.seq])
        after = last
    return state.epoch, state.seq, pubs[:limit]


async def backwards(
    store: ReaderStore,
    build: Build,
    query: Query,
    since: Position | None,
    limit: int,
    fields: Fields | None = None,
) -> Found:
    """Read at most ``limit`` publications before a position (None: the newest), the newest first.

    Where the log ends the history ends. Raises Refused (112) for a position of another epoch or ahead of
    the view, StaleRead when the ground moves.
    """
    state = await _state(store, query)
    before = state.seq + 1
    if since is not None:
        if since.epoch != state.epoch or since.seq > before:
            raise Refused(codes.UNRECOVERABLE)
        before = since.seq
    oldest = max(state.since, state.floor)
    pubs: list[Pub] = []
    step = FIRST_STEP
    while len(pubs) < limit and before > oldest + 1:
        start = max(oldest, before - 1 - step)
        found, cut = await _between(store, build, state, start, before)
        pubs += reversed(chosen.some(fields, found))
        if cut:
            break
        before, step = start + 1, step * 2
    return state.epoch, state.seq, pubs[:limit]


async def _between(
    store: ReaderStore, build: Build, state: QueryState, after: int, before: int
) -> tuple[list[Pub], bool]:
    """Read the publications between two numbers, and say whether the older ones are gone by now."""
    pubs: list[Pub] = []
    cut = False
    begun = after
    while after < before - 1:
        first, last, found = await _read(store, build, state, after)
        if first > after + 1:
            # The log was cut while we read: what came before is gone, and was promised to nobody.
            if after != begun:
                raise StaleRead
            cut = True
        pubs += [pub for pub in found if pub[0] < before]
        after = last
    return pubs, cut


async def _read(
    store: ReaderStore, build: Build, state: QueryState, after: int
) -> tuple[int, int, list[Pub]]:
    """Read a stretch of the log: its first and last number, and what it says to the query."""
    read = await store.log(build, after, build_scan.LOG_CHANGES)
    if read.epoch != state.epoch or not read.entries:
        raise StaleRead
    charge_rows(read.entries[-1].last - read.entries[0].first + 1)
    pubs = [
        (seq, data)
        for entry in read.entries
        for seq, change in entry.numbered()
        if seq > after and (data := data_for(change, state.number)) is not None
    ]
    return read.entries[0].first, read.entries[-1].last, pubs


async def _state(store: ReaderStore, query: Query) -> QueryState:
    state = await store.query_state(query.view, query.id)
    if state is None:
        raise StaleRead
    return state
