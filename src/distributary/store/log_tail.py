"""Follow a view's log on a Redis stream, through lost connections and changes of build.

The log itself is followed (XREAD), not a pub/sub channel: a reader that was
away asks for what came after its last entry, so a lost message does not exist,
and the numbers of consecutive entries must join without a hole (R16).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from distributary.model.build import Build
from distributary.store import redis_codec
from distributary.store.contract import LOG_BYTES
from distributary.store.redis_connections import cancellable
from distributary.store.redis_keys import BuildKeys, ViewKeys
from distributary.store.store_types import Attached, Begun, Ended, Entries, Gone, Lapsed, TailEvent

log = logging.getLogger(__name__)

CHECK_MS = 1_000
"""How long a silent link is believed: a read that waits for this long asks again who is there."""

FEW, PORTION = 8, 5_000
"""Groups that one blocking read brings, since nobody can bound their bytes; changes of a bounded one.

The latter follows when there were more than a few."""


class _Place:
    """Where a follower stands; valid only on one history of one server."""

    def __init__(self, build: Build, epoch: str, seq: int, history_id: str, ctl: str) -> None:
        self.build = build
        self.epoch = epoch
        self.seq = seq
        self.history_id = history_id
        self.ctl = ctl

    @property
    def truth(self) -> tuple[Build, str, str]:
        return (self.build, self.epoch, self.history_id)

    @property
    def attached(self) -> Attached:
        return Attached(self.build, self.epoch, self.seq, self.history_id)


async def follow(url: str, view: str) -> AsyncGenerator[TailEvent, None]:
    """Yield what happens to a view, beginning with Attached (or Gone); ends after Gone."""
    place: _Place | None = None
    delay = 0.0
    while True:
        client: Any = redis.Redis.from_url(
            url, socket_timeout=CHECK_MS / 1000 * 3, socket_connect_timeout=3, single_connection_client=True
        )
        cancellable(client.connection_pool)
        try:
            found = await _look(client, view)
            delay = 0.0
            if found is None:
                yield Gone(view)
                return
            if place is None or place.truth != found.truth or found.seq < place.seq:
                place = found
                yield place.attached
            async for event in _read(client, view, place):
                yield event
                if isinstance(event, Gone):
                    return
        except (RedisError, OSError, TimeoutError) as error:
            delay = min(1.0, delay * 2 or 0.05)
            log.warning("the store does not answer (%s); trying again in %.2f s", error, delay)
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
        finally:
            await client.aclose()


async def _look(client: Any, view: str) -> _Place | None:
    """Read where the live build stands, and with whom we speak. Raises an error for a replica."""
    v = ViewKeys(view)
    reply = await client.eval(redis_codec.script("follower_start"), 2, v.view, v.ctl, v.prefix)
    if reply is None:
        return None
    history, live, epoch, seq, last = (part.decode() for part in reply)
    return _Place(Build(view, live), epoch, int(seq), history, last)


async def _read(client: Any, view: str, place: _Place) -> AsyncIterator[TailEvent]:
    """Yield entries and notices until the ground moves; the caller then looks again."""
    v = ViewKeys(view)
    b = BuildKeys(place.build)
    loop = asyncio.get_running_loop()
    checked = loop.time()
    behind = False
    while True:
        notices: list[Any] = []
        items: list[Any] = []
        attach = False
        if behind:
            asked = [b.meta, b.log, place.seq, PORTION, LOG_BYTES]
            read = redis_codec.log_read(await client.eval(redis_codec.script("log"), 2, *asked))
            entries, attach = read.entries, read.epoch != place.epoch
        else:
            streams = {v.ctl: place.ctl, b.log: f"{place.seq}-0"}
            for name, found in await client.xread(streams, count=FEW, block=CHECK_MS) or ():
                (items if name.decode() == b.log else notices).extend(found)
            entries = [redis_codec.entry(id, [x for kv in body.items() for x in kv]) for id, body in items]
        behind = len(items) >= FEW
        if entries and not attach:
            for one in entries:
                if one.first != place.seq + 1:
                    log.warning("view %s: the log jumps from %d to %d", view, place.seq, one.first)
                    found_now = await _look(client, view)
                    if found_now is not None:
                        place.__dict__.update(found_now.__dict__)
                        yield place.attached
                    return
                place.seq = one.last
            yield Entries(entries)
        for id, body in notices:
            place.ctl = id.decode()
            if b"begun" in body:
                yield Begun(body[b"begun"].decode())
            elif b"ended" in body:
                yield Ended(body[b"ended"].decode())
            elif b"lapsed" in body:
                yield Lapsed(tuple(body[b"lapsed"].decode().split("\n")))
            elif b"gone" in body:
                yield Gone(view)
                return
            else:
                attach = True
        if attach or loop.time() - checked > CHECK_MS / 1000:
            checked = loop.time()
            now = await _look(client, view)
            if now is None:
                yield Gone(view)
                return
            if now.truth != place.truth or now.seq < place.seq:
                now.ctl = place.ctl
                place.__dict__.update(now.__dict__)
                yield place.attached
                return
