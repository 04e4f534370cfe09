"""What joins read from the store: the state, what was missed, a piece of history."""

from __future__ import annotations

import asyncio

from distributary.model.change import data_for
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.publish import codes, resume, snapshot
from distributary.publish.channel import Channel
from distributary.publish.codes import Refused
from distributary.publish.frames import Pub
from distributary.publish.snapshot import Moved, Snapshot
from distributary.store.base import BuildInfo, ReaderStore
from distributary.store.tail import Build


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
    found = await snapshot.read(store, build, channel.query, channel.number)
    if found.epoch != info.epoch:
        raise Moved
    found.incomplete = info.incomplete
    return found


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


async def history(
    store: ReaderStore, build: Build, query: Query, since: Position | None, limit: int
) -> tuple[str, int, list[Pub]]:
    """Read at most ``limit`` publications after a position (None: the oldest there are).

    Raises Refused (112) when some of them are not to be had any more.
    """
    state = await store.query_state(build.view, query.id)
    if state is None:
        raise Moved
    if since is None:
        after = max(state.since, state.floor)
    else:
        decision = resume.decide(since, state)
        if isinstance(decision, resume.Anew):
            raise Refused(codes.UNRECOVERABLE)
        after = decision.after
    pubs: list[Pub] = []
    while len(pubs) < limit and after < state.seq:
        read = await store.log(build, after, snapshot.LOG_CHANGES)
        if read.epoch != state.epoch or not read.entries or read.entries[0].first > after + 1:
            raise Moved
        for entry in read.entries:
            for seq, change in entry.numbered():
                if seq > after and len(pubs) < limit:
                    data = data_for(change, state.number)
                    if data is not None:
                        pubs.append((seq, data))
        after = read.entries[-1].last
    return state.epoch, state.seq, pubs
