"""The writer of the store on Redis, for reducers: blocking, one connection, no hidden retries.

A lost connection is always an error: the server behind the next one may have gone back (R2), so a reducer
must ``open`` again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from distributary.errors import StoreUnsuitable
from distributary.model.build import Build
from distributary.model.position import Fingerprint
from distributary.store import redis_codec, redis_keys
from distributary.store.errors import Behind
from distributary.store.lua_scripts import script, script_sha, store_error
from distributary.store.redis_keys import BuildKeys, ViewKeys
from distributary.store.store_types import (
    BuildInfo,
    ChangeGroup,
    Claim,
    Claimed,
    Opened,
    ProcessHeartbeat,
    QueryRow,
    Row,
    ViewInfo,
    fresh_epoch,
)

REWRITE = 60.0
"""Maximum seconds to wait for a server to rewrite its append-only file."""


class RedisWriter:
    """Implements ``WriterStore`` on Redis or Valkey."""

    def __init__(self, url: str, *, log_length: int = 100_000, timeout: float = 30.0) -> None:
        self._url = url
        self._timeout = timeout
        self._log_length = log_length

    @cached_property
    def _redis(self) -> Any:
        """The connection, opened at its first use, so that a process can start while the server is down."""
        return redis.Redis.from_url(
            self._url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=self._timeout,
            socket_connect_timeout=5,
            single_connection_client=True,
        )

    def close(self) -> None:
        """Close the connection; the next use opens another one, to the server at the address by then."""
        client = self.__dict__.pop("_redis", None)
        if client is not None:
            client.close()
            client.connection_pool.disconnect()

    def _run(self, name: str, names: Sequence[str], args: Sequence[redis_codec.Value]) -> Any:
        try:
            try:
                return self._redis.evalsha(script_sha(name), len(names), *names, *args)
            except redis.exceptions.NoScriptError:
                return self._redis.eval(script(name), len(names), *names, *args)
        except redis.exceptions.ReadOnlyError:
            # This server is no longer the primary: only a new connection finds the one that is.
            self.close()
            raise
        except redis.exceptions.ResponseError as error:
            if isinstance(error, redis.exceptions.OutOfMemoryError):
                raise
            raise store_error(error) from None

    def define(self, view: str, build: str, definition: str) -> None:
        v, b = ViewKeys(view), BuildKeys(Build(view, build))
        self._redis.set(redis_keys.STORE, "1")
        self._run("define", [v.view, redis_keys.VIEWS, b.meta], [view, build, definition, fresh_epoch()])

    def claim(self, build: Build, topic: str, partitions: int, driver: str = "") -> Claimed:
        b = BuildKeys(build)
        self._rewrite_torn_file(b.meta)
        args: list[redis_codec.Value] = [topic, partitions, fresh_epoch(), driver]
        return redis_codec.claimed(self._run("claim", [b.meta, ViewKeys(build.view).ctl, b.log], args))

    def open(self, build: Build, partition: int, claim: Claim) -> Opened:
        b, v = BuildKeys(build), ViewKeys(build.view)
        names = [b.meta, b.log, v.view, v.numbers, v.texts]
        return redis_codec.opened(self._run("open", names, [partition, *claim]))

    def assign(self, build: Build, claim: Claim, partitions: Sequence[int]) -> None:
        self.update_build(build, tasks=redis_codec.assignment(claim, partitions))

    def assigned(self, build: Build, claim: Claim) -> Sequence[int]:
        found: bytes | None = self._redis.hget(BuildKeys(build).meta, "tasks")
        return redis_codec.assigned(claim, (found or b"").decode())

    def write(self, group: ChangeGroup) -> int:
        b, v = BuildKeys(group.build), ViewKeys(group.build.view)
        names = [b.meta, b.rows, b.log, b.last, b.expiry(group.partition), v.view, v.steps, v.texts, b.index]
        args = redis_codec.write_args(group, self._log_length)
        try:
            return redis_codec.written(self._run("write", names, args))
        except redis.exceptions.OutOfMemoryError:
            # The log is expendable: subscribers that were away get a snapshot instead.
            self._run("trim", [b.log], [])
            return redis_codec.written(self._run("write", names, args))

    def advance(
        self,
        build: Build,
        claim: Claim,
        ends: Mapping[int, int],
        *,
        rekey: bool = False,
        last: Mapping[int, Fingerprint] | None = None,
        copied: Mapping[int, Fingerprint] | None = None,
    ) -> bool:
        args: list[redis_codec.Value] = [*claim, "h:" if rekey else "e:", len(ends)]
        for partition, end in ends.items():
            args += (partition, end, str((last or {}).get(partition, "")))
        for partition, one in (copied or {}).items():
            args += (partition, str(one))
        return bool(self._run("advance", [BuildKeys(build).meta], args))

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        if not keys:
            return []
        found: list[bytes | None] = self._redis.hmget(BuildKeys(build).rows, list(keys))
        return [redis_codec.parse_row(value) if value is not None else None for value in found]

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        after, found = self._redis.hscan(BuildKeys(build).rows, cursor, count=count)
        return int(after), [(key.decode(), redis_codec.parse_row(value)) for key, value in found.items()]

    def save_checkpoint(self, build: Build, every_ms: int, keep: int) -> None:
        b = BuildKeys(build)
        self._run("save_checkpoint", [b.meta, b.checkpoints], [every_ms, keep])

    def now(self) -> int:
        return self._now()

    def expired(self, build: Build, partition: int, limit: int) -> tuple[int, list[str]]:
        now, due = self._run("expired", [BuildKeys(build).expiry(partition)], [limit])
        return int(now), [key.decode() for key in due]

    def registry(self, view: str) -> tuple[int, list[QueryRow]]:
        v = ViewKeys(view)
        pipe = self._redis.pipeline(transaction=True)
        pipe.hget(v.view, "version").hgetall(v.numbers).hgetall(v.texts)
        version, numbers, texts = pipe.execute()
        rows = [QueryRow(int(n), id.decode(), texts[id].decode()) for id, n in numbers.items()]
        return int(version or 0), rows

    def registry_diff(self, view: str, version: int) -> Behind | None:
        v = ViewKeys(view)
        reply = self._run("registry_diff", [v.view, v.steps, v.texts], [version])
        return redis_codec.behind(reply) if reply is not None else None

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        v = ViewKeys(build.view)
        under = "" if generation is None else generation
        names = [v.view, BuildKeys(build).meta, v.ctl]
        old: bytes = self._run("go_live", names, [build.id, int(fence), under])
        return old.decode()

    def rebuild(self, build: Build, generation: int, reason: str = "") -> None:
        b = BuildKeys(build)
        names = [b.meta, b.rows, b.log, b.last, b.since, ViewKeys(build.view).ctl, b.index, b.checkpoints]
        self._run("rebuild", names, [fresh_epoch(), reason, generation])

    def drop(self, build: Build) -> bool:
        return self._drop(build)

    def _drop(self, build: Build, *, always: bool = False) -> bool:
        b = BuildKeys(build)
        args: list[redis_codec.Value] = [build.id, b.expiries, int(always)]
        return bool(self._run("drop", [ViewKeys(build.view).view, *b.fixed], args))

    def update_build(self, build: Build, **fields: str) -> None:
        self._set_fields(BuildKeys(build).meta, fields)

    def mark_source_active(self, view: str) -> None:
        self._set_fields(ViewKeys(view).view, {"last_record": str(self._now())})

    def _set_fields(self, name: str, fields: Mapping[str, str]) -> None:
        self._run("set_fields", [name], [item for pair in fields.items() for item in pair])

    def drop_view(self, view: str) -> None:
        v = ViewKeys(view)
        found: dict[bytes, bytes] = self._redis.hgetall(v.view)
        self._redis.srem(redis_keys.VIEWS, view)
        self._redis.xadd(v.ctl, {"gone": "1"})
        self._redis.expire(v.ctl, 60)
        self._redis.unlink(*v.registry)
        builds = b" ".join(found.get(field, b"") for field in (b"live", b"next", b"displaced"))
        for id in builds.split():
            self._drop(Build(view, id.decode()), always=True)

    def heartbeat(self, component: str, id: str, stats: str) -> None:
        self._redis.hset(redis_keys.HEARTBEATS, f"{component}/{id}", f"{self._now()} {stats}")

    def heartbeats(self) -> list[ProcessHeartbeat]:
        return redis_codec.heartbeats(self._redis.hgetall(redis_keys.HEARTBEATS), self._now())[0]

    def revocations(self) -> dict[str, int]:
        """Return the time (ms) of the last revocation of every user that has one."""
        found: dict[bytes, bytes] = self._redis.hgetall(redis_keys.REVOKED)
        return {user.decode(): int(at) for user, at in found.items()}

    def revoke(self, times: Mapping[str, int]) -> None:
        """Store revocations with the times that another server set; a later one that is stored stays."""
        for user, at in times.items():
            self._run("revoke", [redis_keys.REVOKED], [user, at])

    def check(self) -> None:
        """Raise StoreUnsuitable if the server would evict rows (R6)."""
        # Not CONFIG GET, which managed services forbid.
        policy = self._redis.info("memory").get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise StoreUnsuitable(
                f"the store's maxmemory-policy is {policy}: it would evict rows when its memory is full",
                hint="Set it to noeviction: CONFIG SET maxmemory-policy noeviction",
            )

    def flushed(self) -> bool:
        """Return whether the store has lost everything (FLUSHALL, an empty disk)."""
        return not self._redis.exists(redis_keys.STORE)

    def views(self) -> dict[str, ViewInfo]:
        names: set[bytes] = self._redis.smembers(redis_keys.VIEWS)
        out: dict[str, ViewInfo] = {}
        now, run = self._now(), self._run_id()
        for name in sorted(n.decode() for n in names):
            hash: dict[bytes, bytes] = self._redis.hgetall(ViewKeys(name).view)
            info = redis_codec.view_info({k.decode(): v.decode() for k, v in hash.items()}, now, run)
            if info is not None:
                out[name] = info
        return out

    def build(self, build: Build) -> BuildInfo | None:
        b = BuildKeys(build)
        pipe = self._redis.pipeline(transaction=True)
        pipe.hgetall(b.meta).hlen(b.rows).xrange(b.log, "-", "+", count=1)
        meta, rows, oldest = pipe.execute()
        return redis_codec.build_info(
            {k.decode(): v.decode() for k, v in meta.items()}, rows, redis_codec.flat_entries(oldest)
        )

    def _rewrite_torn_file(self, meta: str) -> None:
        """Make a Redis that restarted rewrite its append-only file before it is written to.

        Version 7.0 keeps a torn transaction at the end of a cut file and replays it at the next
        restart; Valkey does not (R13).
        """
        server = self._redis.info("server")
        known = self._redis.hget(meta, "run")
        if known is None or server["run_id"] in known.decode() or server.get("server_name") == "valkey":
            return
        if not self._redis.info("persistence")["aof_enabled"]:
            return
        try:
            self._redis.bgrewriteaof()
        except redis.exceptions.ResponseError as error:
            if "already in progress" not in str(error):  # a resynchronization starts one automatically
                raise
        deadline = time.monotonic() + REWRITE
        while self._rewrite_in_progress() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _rewrite_in_progress(self) -> bool:
        info = self._redis.info("persistence")
        return bool(info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])

    def _now(self) -> int:
        seconds, micros = self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def _run_id(self) -> str:
        return str(self._redis.info("server")["run_id"])
