"""What joins read from the store: the state, and what was missed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection

from distributary.model.change import data_for
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.publish.hub import resume, snapshot
from distributary.publish.hub.channel import Channel
from distributary.publish.hub.snapshot import Moved, Snapshot, Timeless
from distributary.publish.wire import codes
from distributary.publish.wire.codes import Refused
from distributary.publish.wire.frames import Pub
from distributary.store.base import BuildInfo, ReaderStore
from distributary.store.tail import Build

CLOCK_LIMIT, CLOCK_LOOK = 3.0, 0.05
"""Seconds to wait for the clocks of rows, and between two looks."""


async def require_live(store: ReaderStore, build: Build) -> BuildInfo:
    """Read a build's state; raises Refused while it has no rows to serve, Moved when it is gone."""
    info = await store.build(build)
    if info is None:
        raise Moved
    if info.status != "live":
        raise Refused(codes.building(info.reason))
    return info


async def shared(store: ReaderStore, build: Build, channel: Channel) -> Snapshot:
    """Read a channel's state, once for all who wait for it at the same time.

    The read may have begun before the caller's hold; the caller's check of its position covers that.
    """
    task = channel.reading
    if task is None or task.done():
        task = channel.reading = asyncio.create_task(_read(store, build, channel))
        task.add_done_callback(lambda done: _forget(channel, done))
    return await asyncio.shield(task)


def _forget(channel: Channel, task: asyncio.Task[Snapshot]) -> None:
    if channel.reading is task:
        channel.reading = None
    if not task.cancelled():
        task.exception()  # whoever still waits has seen it


async def _read(store: ReaderStore, build: Build, channel: Channel) -> Snapshot:
    info = await require_live(store, build)
    found = await _once_timed(store, build, channel, indexed(info.definition))
    if found.epoch != info.epoch:
        raise Moved
    found.incomplete = info.incomplete
    return found


async def _once_timed(store: ReaderStore, build: Build, channel: Channel, index: Collection[str]) -> Snapshot:
    """Read the state; a query with ``now()`` waits a moment for reducers that have just started."""
    deadline = time.monotonic() + CLOCK_LIMIT
    while True:
        try:
            return await snapshot.read(store, build, channel.query, channel.number, index=index)
        except Timeless:
            if time.monotonic() > deadline:
                raise Refused(codes.building("its reducers have not started yet")) from None
            await asyncio.sleep(CLOCK_LOOK)


def indexed(definition: str) -> list[str]:
    """The fields that a stored definition says rows can be found by."""
    try:
        fields = json.loads(definition)["view"].get("index", [])
    except (ValueError, KeyError, AttributeError, TypeError):
        return []
    return [field for field in fields if isinstance(field, str)] if isinstance(fields, list) else []


async def missed(
    store: ReaderStore, build: Build, query: Query, position: Position
) -> tuple[str, int, list[Pub]] | None:
    """Read what a subscriber missed since its position, and up to which number; None: not to be had."""
    await require_live(store, build)
    state = await store.query_state(build.view, query.id)
    if state is None:
        return None
    decision = resume.decide(position, state)
    if isinstance(decision, resume.Anew):
        return None
    try:
        entries, top = await snapshot.read_log(store, build, state.epoch, decision.after)
    except Moved:
        return None
    pubs = [
        (seq, data)
        for entry in entries
        for seq, change in entry.numbered()
        if seq > decision.after and (data := data_for(change, state.number)) is not None
    ]
    return state.epoch, top, pubs
