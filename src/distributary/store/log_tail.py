"""Follow a view's log on a Redis stream, through lost connections and changes of build.

The log itself is followed (XREAD), not a pub/sub channel: a reader that was away asks for what came after its
last entry, so no message is lost, and the numbers of consecutive entries must join without a gap (R16).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from distributary.model.build import Build
from distributary.store import redis_codec
from distributary.store.contract import LOG_BYTES
from distributary.store.log_events import Attached, Begun, Ended, Entries, Gone, Lapsed, TailEvent
from distributary.store.lua_scripts import script
from distributary.store.redis_connections import cancellable
from distributary.store.redis_keys import BuildKeys, ViewKeys

log = logging.getLogger(__name__)

CHECK_MS = 1_000
"""A read that waits for this long checks again which server it is connected to."""

FEW, PORTION = 8, 5_000
"""Groups that one blocking read returns, since their bytes cannot be limited; changes of a limited read,
which follows if there were that many groups."""


@dataclass
class _Cursor:
    """How far a follower has read; valid only on one history of one server."""

    build: Build
    epoch: str
    seq: int
    history_id: str
    ctl: str  # the id of the last notice

    def move_to(self, other: _Cursor) -> None:
        self.build, self.epoch, self.seq = other.build, other.epoch, other.seq
        self.history_id, self.ctl = other.history_id, other.ctl

    @property
    def identity(self) -> tuple[Build, str, str]:
        return (self.build, self.epoch, self.history_id)

    @property
    def attached(self) -> Attached:
        return Attached(self.build, self.epoch, self.seq, self.history_id)


async def follow(url: str, view: str) -> AsyncGenerator[TailEvent, None]:
    """Yield the events of a view, beginning with Attached (or Gone); ends after Gone."""
    cursor: _Cursor | None = None
    delay = 0.0
    while True:
        client: Any = redis.Redis.from_url(
            url, socket_timeout=CHECK_MS / 1000 * 3, socket_connect_timeout=3, single_connection_client=True
        )
        cancellable(client.connection_pool)
        try:
            found = await _current(client, view)
            delay = 0.0
            if found is None:
                yield Gone(view)
                return
            if cursor is None or cursor.identity != found.identity or found.seq < cursor.seq:
                cursor = found
                yield cursor.attached
            async for event in _read(client, view, cursor):
                yield event
                if isinstance(event, Gone):
                    return
        except (RedisError, OSError, TimeoutError) as error:
            delay = min(1.0, delay * 2 or 0.05)
            log.warning("the store does not respond (%s); retrying in %.2f s", error, delay)
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
        finally:
            await client.aclose()


async def _current(client: Any, view: str) -> _Cursor | None:
    """Read the position of the live build, and the history of the server. Raises an error for a replica."""
    v = ViewKeys(view)
    reply = await client.eval(script("follower_start"), 2, v.view, v.ctl, v.prefix)
    if reply is None:
        return None
    history, live, epoch, seq, last = (part.decode() for part in reply)
    return _Cursor(Build(view, live), epoch, int(seq), history, last)


async def _read(client: Any, view: str, cursor: _Cursor) -> AsyncIterator[TailEvent]:
    """Yield entries and notices until build, epoch or history change; the caller then looks them up again."""
    v = ViewKeys(view)
    b = BuildKeys(cursor.build)
    loop = asyncio.get_running_loop()
    checked = loop.time()
    behind = False
    while True:
        notices: list[Any] = []
        items: list[Any] = []
        attach = False
        # 1. Read: without blocking while there is a backlog, else until something is written.
        if behind:
            args = [b.meta, b.log, cursor.seq, PORTION, LOG_BYTES]
            read = redis_codec.log_read(await client.eval(script("log"), 2, *args))
            entries, attach = read.entries, read.epoch != cursor.epoch
        else:
            streams = {v.ctl: cursor.ctl, b.log: f"{cursor.seq}-0"}
            for name, found in await client.xread(streams, count=FEW, block=CHECK_MS) or ():
                (items if name.decode() == b.log else notices).extend(found)
            entries = [redis_codec.entry(id, [x for kv in body.items() for x in kv]) for id, body in items]
        behind = len(items) >= FEW
        # 2. Entries, which must follow each other without a gap.
        if entries and not attach:
            for one in entries:
                if one.first != cursor.seq + 1:
                    log.warning("view %s: gap in the log, from %d to %d", view, cursor.seq, one.first)
                    found_now = await _current(client, view)
                    if found_now is not None:
                        cursor.move_to(found_now)
                        yield cursor.attached
                    return
                cursor.seq = one.last
            yield Entries(entries)
        # 3. Notices.
        for id, body in notices:
            cursor.ctl = id.decode()
            event = _event(view, body)
            if event is None:
                attach = True
                continue
            yield event
            if isinstance(event, Gone):
                return
        # 4. After a notice of a change, and once a second, check build, epoch and history.
        if attach or loop.time() - checked > CHECK_MS / 1000:
            checked = loop.time()
            now = await _current(client, view)
            if now is None:
                yield Gone(view)
                return
            if now.identity != cursor.identity or now.seq < cursor.seq:
                now.ctl = cursor.ctl
                cursor.move_to(now)
                yield cursor.attached
                return


def _event(view: str, body: Mapping[bytes, bytes]) -> TailEvent | None:
    """Return the event of a notice; None: the build or its epoch changed."""
    if b"begun" in body:
        return Begun(body[b"begun"].decode())
    if b"ended" in body:
        return Ended(body[b"ended"].decode())
    if b"lapsed" in body:
        return Lapsed(tuple(body[b"lapsed"].decode().split("\n")))
    return Gone(view) if b"gone" in body else None
