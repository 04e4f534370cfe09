"""What joins read from the store: the state, and what was missed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection

from distributary.auth.metering import charge_rows, measured_task
from distributary.model.build import Build
from distributary.model.change import data_for
from distributary.model.position import Position, Start
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.websocket_frames import Pub
from distributary.publisher.hub import resume
from distributary.publisher.hub.catch_up import Touched, from_kafka, from_log
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.subscription import Channel, Recovered
from distributary.store.build_scan import StaleRead, read_log
from distributary.store.consistent_read import ClockUnknown, read_registered
from distributary.store.contract import ReaderStore
from distributary.store.store_types import BuildInfo, QueryState

CLOCK_LIMIT, CLOCK_LOOK = 3.0, 0.05
"""Seconds to wait for the clocks of rows, and between two looks."""


async def require_live(store: ReaderStore, build: Build) -> BuildInfo:
    """Read a build's state; raises Refused while it has no rows to serve, StaleRead when it is gone."""
    info = await store.build(build)
    if info is None:
        raise StaleRead
    if info.status != "live":
        raise Refused(codes.BUILDING)
    return info


async def shared(store: ReaderStore, build: Build, channel: Channel) -> Snapshot:
    """Read a channel's state, once for all who wait for it at the same time.

    The read may have begun before the caller's hold; the caller's check of its position covers that.
    """
    task = channel.reading
    if task is None or task.done():
        task = channel.reading = measured_task(_read(store, build, channel))
        task.add_done_callback(lambda done: _forget(channel, done))
    return await asyncio.shield(task)


def _forget(channel: Channel, task: asyncio.Task[Snapshot]) -> None:
    if channel.reading is task:
        channel.reading = None
    if not task.cancelled():
        task.exception()  # whoever still waits has seen it


async def _read(store: ReaderStore, build: Build, channel: Channel) -> Snapshot:
    info = await require_live(store, build)
    found = await _once_timed(store, build, channel, info.indexed_fields)
    if found.epoch != info.epoch:
        raise StaleRead
    found.incomplete = info.incomplete
    return found


async def _once_timed(store: ReaderStore, build: Build, channel: Channel, index: Collection[str]) -> Snapshot:
    """Read the state; a query with ``now()`` waits a moment for reducers that have just started."""
    deadline = time.monotonic() + CLOCK_LIMIT
    while True:
        try:
            found = await read_registered(
                store, build, channel.query, channel.number, index=index, charge=charge_rows
            )
            return Snapshot(found.epoch, found.seq, found.rows)
        except ClockUnknown:
            if time.monotonic() > deadline:
                raise Refused(codes.building("its reducers have not started yet")) from None
            await asyncio.sleep(CLOCK_LOOK)


async def missed(
    store: ReaderStore,
    build: Build,
    query: Query,
    start: Start,
    *,
    rows: bool = False,
    filtered: bool = False,
    replay: Touched | None = None,
) -> Recovered | None:
    """Read what a subscriber missed since it was at ``start``; None: not to be had, it needs the state.

    With ``rows`` it may also be told of rows as they are now instead of each change, where changes are not
    to be had: whoever begins from a position has seen none so far. From a time on it is always rows, since
    what is known of it is a position somewhat before. Who is ``filtered``, and may not see every row of the
    view, is not told of rows: that names the keys of all that changed, in the query or not.
    """
    await require_live(store, build)
    state = await store.query_state(build.view, query.id)
    if state is None:
        return None
    exact = isinstance(start, Position)
    if not isinstance(start, Position):
        place = await store.find_checkpoint(build, time=start)
        if place is None:
            return None
        start, rows = Position(place.epoch, place.seq), True
    decision = resume.decide(start, state)
    if exact and isinstance(decision, resume.Recover):
        with contextlib.suppress(StaleRead):  # the log was cut while it was read
            return await _changes(store, build, state, decision.after)
    # Rows of a timed query come and go without a change.
    if start.epoch != state.epoch or start.seq > state.seq or query.timed:
        return None
    if filtered:
        return None
    if rows and start.seq >= state.floor:
        with contextlib.suppress(StaleRead):
            return await from_log(store, build, query, state, start.seq)
    if replay is not None:
        with contextlib.suppress(StaleRead):
            return await from_kafka(store, build, query, state, start, replay)
    return None


async def _changes(store: ReaderStore, build: Build, state: QueryState, after: int) -> Recovered:
    pubs: list[Pub] = []
    top = after
    async for entry in read_log(store, build, state.epoch, after, charge=charge_rows):
        for seq, change in entry.numbered():
            if seq > after and (data := data_for(change, state.number)) is not None:
                pubs.append((seq, data))
        top = entry.last
    return Recovered(state.epoch, top, pubs)
