"""The publishers' side of the Redis store: asyncio, reads from the primary, follows the log."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import redis.asyncio as redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from distributary.config.secrets import mask_text
from distributary.store import index, keys, wire
from distributary.store.base import (
    Beat,
    BuildInfo,
    Found,
    LogRead,
    Page,
    Place,
    QueryRow,
    QueryState,
    Registered,
    ServerState,
    Subscription,
    ViewInfo,
)
from distributary.store.follow import follow
from distributary.store.keys import BuildKeys, ViewKeys
from distributary.store.tail import Build, TailEvent

CONNECTIONS = 32
"""Calls that are under way at once; more wait for their turn, in place of an error."""

TURN = 30.0
"""Seconds that a call waits for its turn: longer than a server that hangs holds up those before it."""


class RedisReader:
    """Implements ``ReaderStore`` on Redis or Valkey."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        self._url = url
        pool = redis.BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=TURN,
            socket_timeout=timeout,
            socket_connect_timeout=5,
        )
        self._redis: Any = redis.Redis.from_pool(pool)
        self._shas: dict[str, str] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose()

    async def _run(self, name: str, names: Sequence[str], args: Sequence[wire.Value]) -> Any:
        text = wire.script(name)
        sha = self._shas.get(name)
        if sha is None:
            sha = self._shas[name] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        try:
            return await self._redis.evalsha(sha, len(names), *names, *args)
        except NoScriptError:
            return await self._redis.eval(text, len(names), *names, *args)

    async def ping(self) -> None:
        """Raise unless the server answers."""
        await self._redis.ping()

    async def servers(self) -> list[ServerState]:
        try:
            return [ServerState(mask_text(self._url), True, await self.views())]
        except (RedisError, OSError):
            return [ServerState(mask_text(self._url), False, [])]

    async def views(self) -> list[str]:
        return sorted(name.decode() for name in await self._redis.smembers(keys.VIEWS))

    async def view(self, view: str) -> ViewInfo | None:
        pipe = self._redis.pipeline(transaction=True)
        pipe.hgetall(ViewKeys(view).view).time().info("server")
        hash, (seconds, micros), info = await pipe.execute()
        now = int(seconds) * 1000 + int(micros) // 1000
        return wire.view_info({k.decode(): v.decode() for k, v in hash.items()}, now, str(info["run_id"]))

    async def build(self, build: Build) -> BuildInfo | None:
        b = BuildKeys(build)
        pipe = self._redis.pipeline(transaction=True)
        pipe.hgetall(b.meta).hlen(b.rows).xrange(b.log, "-", "+", count=1)
        meta, rows, oldest = await pipe.execute()
        return wire.build_info(
            {k.decode(): v.decode() for k, v in meta.items()}, rows, wire.flat_entries(oldest)
        )

    async def register(
        self, view: str, query_id: str, text: str, subscription: str, ttl_ms: int, begun: bool
    ) -> Registered:
        v = ViewKeys(view)
        args: list[wire.Value] = [query_id, text, subscription, ttl_ms, int(begun), v.prefix]
        try:
            reply = await self._run("register", v.registry, args)
        except ResponseError as error:
            if str(error).startswith("GONE"):
                raise KeyError(view) from None
            raise
        number, version, created, since, last, epoch, seq = reply
        state = QueryState(int(number), int(since), int(last), epoch.decode(), int(seq), int(seq))
        return Registered(int(number), int(version), bool(created), state)

    async def subscription(self, view: str, subscription: str) -> Subscription | None:
        v = ViewKeys(view)
        pipe = self._redis.pipeline(transaction=True)
        pipe.hget(v.subscriptions, subscription).zscore(v.expiries, subscription).time()
        held, expires, (seconds, micros) = await pipe.execute()
        if held is None or expires is None or expires < int(seconds) * 1000 + int(micros) // 1000:
            return None
        text = held.decode()
        return Subscription(subscription, text[1:], text[0] == "1", int(expires))

    async def find_subscription(self, subscription: str) -> str | None:
        for view in await self.views():
            if await self.subscription(view, subscription) is not None:
                return view
        return None

    async def begin(self, view: str, subscription: str, ttl_ms: int) -> bool:
        v = ViewKeys(view)
        done = await self._run("begin", [v.subscriptions, v.expiries, v.ctl], [subscription, ttl_ms])
        if done < 0:
            raise KeyError(subscription)
        return bool(done)

    async def renew(self, view: str, subscriptions: Sequence[str], ttl_ms: int) -> list[str]:
        v = ViewKeys(view)
        gone: list[str] = []
        for at in range(0, len(subscriptions), 1000):
            some = subscriptions[at : at + 1000]
            reply = await self._run("renew", [v.subscriptions, v.expiries], [ttl_ms, *some])
            gone += [id.decode() for id in reply]
        return gone

    async def end(self, view: str, subscription: str, *, tell: bool = False) -> bool:
        v = ViewKeys(view)
        return bool(await self._run("end", [*v.registry, v.ctl], [subscription, v.prefix, int(tell)]))

    async def sweep(self, view: str) -> list[str]:
        v = ViewKeys(view)
        return [id.decode() for id in await self._run("sweep", v.registry, [v.prefix, 200])]

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        v = ViewKeys(view)
        pipe = self._redis.pipeline(transaction=True)
        pipe.hget(v.numbers, query_id).hget(v.texts, query_id)
        number, text = await pipe.execute()
        return QueryRow(int(number), query_id, text.decode()) if number is not None else None

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        v = ViewKeys(view)
        return wire.query_state(await self._run("state", [v.view, v.numbers], [query_id, v.prefix]))

    async def rows(self, build: Build, keys: Sequence[str]) -> Found:
        b = BuildKeys(build)
        return wire.rows(keys, await self._run("rows", [b.meta, b.rows], list(keys)))

    async def find(self, build: Build, field: str, value: str, limit: int) -> Found | None:
        b = BuildKeys(build)
        first, after = index.bounds(field, value)
        return wire.found(await self._run("find", [b.meta, b.rows, b.index], [first, after, limit]))

    async def page(self, build: Build, cursor: int, count: int) -> Page:
        b = BuildKeys(build)
        both = self._redis.pipeline(transaction=True)
        both.eval(wire.script("page"), 1, b.meta)
        both.hscan(b.rows, cursor, count=count)
        return wire.page(*await both.execute())

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        b = BuildKeys(build)
        return wire.log_read(await self._run("log", [b.meta, b.log], [after, limit]))

    async def place(self, build: Build, *, seq: int | None = None, time: int | None = None) -> Place | None:
        asked: list[wire.Value] = ["seq", seq] if seq is not None else ["time", time or 0]
        return wire.place(await self._run("placed", [BuildKeys(build).places], asked))

    async def revoke(self, user: str, moment: int = 0) -> int:
        """Note it as of ``moment`` (ms), which another server gave, or as of now."""
        return int(await self._run("revoke", [keys.REVOKED], [user, moment]))

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for at in range(0, len(users), 1000):
            some = users[at : at + 1000]
            moments = await self._redis.hmget(keys.REVOKED, list(some))
            found |= {
                user: int(moment) for user, moment in zip(some, moments, strict=True) if moment is not None
            }
        return found

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        return follow(self._url, view)

    async def beat(self, part: str, id: str, stats: str) -> None:
        await self._redis.hset(keys.BEATS, f"{part}/{id}", f"{await self._now()} {stats}")

    async def beats(self) -> list[Beat]:
        heard, silent = wire.beats(await self._redis.hgetall(keys.BEATS), await self._now())
        if silent:
            await self._redis.hdel(keys.BEATS, *silent)
        return heard

    async def _now(self) -> int:
        seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000
