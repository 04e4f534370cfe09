"""The reader of the store on Redis, for publishers and the control API: asyncio, from the primary only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import redis.asyncio as redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from distributary.config.secrets import mask_text
from distributary.model.build import Build
from distributary.store import redis_codec, redis_keys, row_index
from distributary.store.contract import LOG_BYTES, SWEEP_BATCH
from distributary.store.errors import id_taken, registry_full
from distributary.store.log_events import TailEvent
from distributary.store.log_tail import follow
from distributary.store.lua_scripts import from_replica, script, script_sha
from distributary.store.redis_connections import cancellable, reconnect, to_primary
from distributary.store.redis_keys import BuildKeys, ViewKeys
from distributary.store.store_types import (
    NO_QUERY_LIMITS,
    BuildCheckpoint,
    BuildInfo,
    LogRead,
    ProcessHeartbeat,
    QueryLimits,
    QueryRow,
    QueryState,
    Registered,
    RowPage,
    RowsRead,
    ServerState,
    StoredSubscription,
    ViewInfo,
)

log = logging.getLogger(__name__)

CONNECTIONS = 32
"""Maximum number of concurrent calls; further ones wait for a free connection."""

CONNECT_TIMEOUT = 5.0
"""Time-out for connecting (s)."""

RESPONSE_TIMEOUT = 2.5
"""Time-out for the state of a server (s)."""

T = TypeVar("T")

POOL_TIMEOUT = 30.0
"""Time-out for a free connection (s): longer than a hanging server delays the calls before it."""


class RedisReader:
    """Implements ``ReaderStore`` on Redis or Valkey."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        self._url = url
        self._pool = redis.BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=POOL_TIMEOUT,
            socket_timeout=timeout,
            socket_connect_timeout=CONNECT_TIMEOUT,
            redis_connect_func=to_primary,
        )
        cancellable(self._pool)
        self._redis: Any = redis.Redis.from_pool(self._pool)
        self._names: list[str] = []  # the views at the last response

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose()

    async def _run(self, name: str, names: Sequence[str], args: Sequence[redis_codec.Value]) -> Any:
        try:
            return await self._write("EVALSHA", script_sha(name), len(names), *names, *args)
        except NoScriptError:
            return await self._write("EVAL", script(name), len(names), *names, *args)

    async def _write(self, *command: redis_codec.Value) -> Any:
        """Execute a command that a replica rejects."""
        return await self._on_primary(lambda: self._redis.execute_command(*command))

    async def _read(self, fill: Callable[[Any], object]) -> Any:
        """Execute commands in one transaction, which fails on a replica."""

        async def call() -> Any:
            pipe = self._redis.pipeline(transaction=True)
            pipe.eval(script("check_primary"), 0)
            fill(pipe)
            return (await pipe.execute())[1:]

        return await self._on_primary(call)

    async def _on_primary(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call; if a replica responds, reconnect and call once more."""
        try:
            return await call()
        except ResponseError as error:
            if not from_replica(error):
                raise
        log.warning("the store at %s has become a replica; reconnecting", mask_text(self._url))
        await reconnect(self._pool)
        return await call()

    async def ping(self) -> None:
        """Raise unless the server responds."""
        await self._redis.ping()

    async def servers(self) -> list[ServerState]:
        address = mask_text(self._url)
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                self._names = await self.views()
                return [redis_codec.server_state(address, self._names, await self._redis.info())]
        except TimeoutError:
            return [ServerState(address, False, self._names, f"no response within {RESPONSE_TIMEOUT:g} s")]
        except (RedisError, OSError) as error:
            return [ServerState(address, False, self._names, mask_text(str(error) or type(error).__name__))]

    async def views(self) -> list[str]:
        (names,) = await self._read(lambda pipe: pipe.smembers(redis_keys.VIEWS))
        return sorted(name.decode() for name in names)

    async def view(self, view: str) -> ViewInfo | None:
        hash, (seconds, micros), info = await self._read(
            lambda pipe: pipe.hgetall(ViewKeys(view).view).time().info("server")
        )
        now = int(seconds) * 1000 + int(micros) // 1000
        return redis_codec.view_info(
            {k.decode(): v.decode() for k, v in hash.items()}, now, str(info["run_id"])
        )

    async def build(self, build: Build) -> BuildInfo | None:
        b = BuildKeys(build)
        meta, rows, floor = await self._read(
            lambda pipe: pipe.hgetall(b.meta).hlen(b.rows).eval(script("log_floor"), 1, b.log)
        )
        found = redis_codec.build_info({k.decode(): v.decode() for k, v in meta.items()}, rows, [])
        return found if found is None or floor is None else replace(found, floor=int(floor))

    async def register(
        self,
        view: str,
        *,
        query_id: str,
        text: str,
        subscription: str,
        ttl_ms: int,
        begun: bool,
        limits: QueryLimits = NO_QUERY_LIMITS,
    ) -> Registered:
        v = ViewKeys(view)
        args: list[redis_codec.Value] = [query_id, text, subscription, ttl_ms, int(begun), v.prefix]
        args += [limits.queries, int(limits.expensive), limits.expensive_queries]
        try:
            reply = await self._run("register", v.registry, args)
        except ResponseError as error:
            if str(error).startswith("GONE"):
                raise KeyError(view) from None
            if str(error).startswith("TAKEN"):
                raise id_taken(query_id) from None
            if str(error).startswith("FULL"):
                raise registry_full(view, limits, expensive="expensive" in str(error)) from None
            raise
        number, version, created, since, last, epoch, seq, history = reply
        state = QueryState(
            number=int(number),
            since=int(since),
            last=int(last),
            epoch=epoch.decode(),
            seq=int(seq),
            floor=int(seq),
            history_id=history.decode(),
        )
        return Registered(int(number), int(version), bool(created), state)

    async def subscription(self, view: str, subscription: str) -> StoredSubscription | None:
        v = ViewKeys(view)
        stored, expires, (seconds, micros) = await self._read(
            lambda pipe: pipe.hget(v.subscriptions, subscription).zscore(v.expiries, subscription).time()
        )
        if stored is None or expires is None or expires < int(seconds) * 1000 + int(micros) // 1000:
            return None
        text = stored.decode()
        return StoredSubscription(subscription, text[1:], text[0] == "1", int(expires))

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
            batch = subscriptions[at : at + 1000]
            reply = await self._run("renew", [v.subscriptions, v.expiries], [ttl_ms, *batch])
            gone += [id.decode() for id in reply]
        return gone

    async def end(self, view: str, subscription: str, *, notify: bool = False) -> bool:
        v = ViewKeys(view)
        return bool(await self._run("end", [*v.registry, v.ctl], [subscription, v.prefix, int(notify)]))

    async def sweep(self, view: str) -> list[str]:
        v = ViewKeys(view)
        swept = await self._run("sweep", [*v.registry, v.ctl], [v.prefix, SWEEP_BATCH])
        return [id.decode() for id in swept]

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        v = ViewKeys(view)
        number, text = await self._read(lambda pipe: pipe.hget(v.numbers, query_id).hget(v.texts, query_id))
        return QueryRow(int(number), query_id, text.decode()) if number is not None else None

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        v = ViewKeys(view)
        return redis_codec.query_state(await self._run("state", [v.view, v.numbers], [query_id, v.prefix]))

    async def rows(self, build: Build, keys: Sequence[str]) -> RowsRead:
        b = BuildKeys(build)
        return redis_codec.rows(keys, await self._run("rows", [b.meta, b.rows], list(keys)))

    async def find_by_index(self, build: Build, field: str, value: str, limit: int) -> RowsRead | None:
        b = BuildKeys(build)
        first, after = row_index.value_range(field, value)
        return redis_codec.rows_found(
            await self._run("find_by_index", [b.meta, b.rows, b.index], [first, after, limit])
        )

    async def page(self, build: Build, cursor: int, count: int) -> RowPage:
        b = BuildKeys(build)
        both = self._redis.pipeline(transaction=True)
        both.eval(script("page"), 1, b.meta)
        both.hscan(b.rows, cursor, count=count)
        return redis_codec.page(*await both.execute())

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        b = BuildKeys(build)
        return redis_codec.log_read(await self._run("log", [b.meta, b.log], [after, limit, LOG_BYTES]))

    async def find_checkpoint(
        self, build: Build, *, seq: int | None = None, time: int | None = None
    ) -> BuildCheckpoint | None:
        args: list[redis_codec.Value] = ["seq", seq] if seq is not None else ["time", time or 0]
        return redis_codec.checkpoint(
            await self._run("find_checkpoint", [BuildKeys(build).checkpoints], args)
        )

    async def revoke(self, user: str, at: int = 0, *, keep_ms: int = 0) -> int:
        """Revoke as of ``at`` (ms), which another server set, or as of now."""
        return int(await self._run("revoke", [redis_keys.REVOKED], [user, at, keep_ms]))

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for at in range(0, len(users), 1000):
            found |= await self._revoked(list(users[at : at + 1000]))
        return found

    async def revocations(self) -> dict[str, int]:
        """Return the time (ms) of the last revocation of every user that has one."""
        (found,) = await self._read(lambda pipe: pipe.hgetall(redis_keys.REVOKED))
        return {user.decode(): int(at) for user, at in found.items()}

    async def _revoked(self, users: list[str]) -> dict[str, int]:
        (times,) = await self._read(lambda pipe: pipe.hmget(redis_keys.REVOKED, users))
        pairs = zip(users, times, strict=True)
        return {user: int(at) for user, at in pairs if at is not None}

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        most = -1 if limit is None else limit
        return bool(
            await self._run("reserve", [redis_keys.RESERVED + what], [holder, change, -1, most, ttl_ms])
        )

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        for what, amount in amounts.items():
            await self._run("reserve", [redis_keys.RESERVED + what], [holder, 0, amount, -1, ttl_ms])

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        args: list[redis_codec.Value] = [str(cost), str(rate), str(burst)]
        return int(await self._run("spend", [redis_keys.SPENT + what], args)) / 1000

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        return follow(self._url, view)

    async def heartbeat(self, component: str, id: str, stats: str) -> None:
        await self._write("HSET", redis_keys.HEARTBEATS, f"{component}/{id}", f"{await self._now()} {stats}")

    async def heartbeats(self) -> list[ProcessHeartbeat]:
        recent, silent = redis_codec.heartbeats(
            await self._redis.hgetall(redis_keys.HEARTBEATS), await self._now()
        )
        if silent:
            await self._write("HDEL", redis_keys.HEARTBEATS, *silent)
        return recent

    async def _now(self) -> int:
        seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000
