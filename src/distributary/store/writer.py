"""The reducers' side of the Redis store: blocking, one connection, no hidden retries.

A lost connection is always an error here: the server behind the next one may
have gone back (R2), so whoever writes must ``open`` again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from distributary.errors import StoreUnsuitable
from distributary.store import keys, wire
from distributary.store.base import (
    Beat,
    Behind,
    BuildInfo,
    Claimed,
    Fenced,
    Group,
    Opened,
    QueryRow,
    Row,
    Suspect,
    TopicReplaced,
    ViewInfo,
)
from distributary.store.keys import BuildKeys, ViewKeys
from distributary.store.tail import Build

REWRITE = 60.0
"""Seconds to wait for a server to rewrite its append-only file."""


class RedisWriter:
    """Implements ``WriterStore`` on Redis or Valkey."""

    def __init__(self, url: str, *, log_keep: int = 100_000, timeout: float = 30.0) -> None:
        self._url = url
        self._timeout = timeout
        self._keep = log_keep
        self._shas: dict[str, str] = {}

    @cached_property
    def _redis(self) -> Any:
        """The connection, made at its first use: a server that is down keeps no process from starting."""
        return redis.Redis.from_url(
            self._url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=self._timeout,
            socket_connect_timeout=5,
            single_connection_client=True,
        )

    def close(self) -> None:
        """Give the connection back."""
        if "_redis" in self.__dict__:
            self._redis.close()

    def _run(self, name: str, names: Sequence[str], args: Sequence[wire.Value]) -> Any:
        text = wire.script(name)
        sha = self._shas.get(name)
        if sha is None:
            sha = self._shas[name] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        try:
            try:
                return self._redis.evalsha(sha, len(names), *names, *args)
            except redis.exceptions.NoScriptError:
                return self._redis.eval(text, len(names), *names, *args)
        except redis.exceptions.ResponseError as error:
            if isinstance(error, redis.exceptions.OutOfMemoryError):
                raise
            raise _typed(error) from None

    def define(self, view: str, build: str, definition: str) -> None:
        v, b = ViewKeys(view), BuildKeys(Build(view, build))
        self._redis.set(keys.STORE, "1")
        self._run("define", [v.view, keys.VIEWS, b.meta], [view, build, definition, wire.fresh_epoch()])

    def claim(self, build: Build, topic: str, partitions: int, driver: str = "") -> Claimed:
        b = BuildKeys(build)
        self._settle(b.meta)
        args: list[wire.Value] = [topic, partitions, wire.fresh_epoch(), driver]
        return wire.claimed(self._run("claim", [b.meta, ViewKeys(build.view).ctl, b.log], args))

    def open(self, build: Build, partition: int, generation: int) -> Opened:
        b, v = BuildKeys(build), ViewKeys(build.view)
        names = [b.meta, v.ctl, b.log, v.view, v.numbers, v.texts]
        return wire.opened(self._run("open", names, [partition, generation, wire.fresh_epoch()]))

    def write(self, group: Group) -> int:
        b, v = BuildKeys(group.build), ViewKeys(group.build.view)
        names = [b.meta, b.rows, b.log, b.last, b.expiry(group.partition), v.view, v.steps, v.texts, b.index]
        args = wire.write_args(group, self._keep)
        try:
            return wire.written(self._run("write", names, args))
        except redis.exceptions.OutOfMemoryError:
            # The log is what can be done without: whoever was away gets a snapshot instead.
            self._run("trim", [b.log], [])
            return wire.written(self._run("write", names, args))

    def advance(
        self, build: Build, epoch: str, generation: int, ends: Mapping[int, int], *, hop: bool = False
    ) -> bool:
        args: list[wire.Value] = [epoch, generation, "h:" if hop else "e:"]
        for partition, end in ends.items():
            args += (partition, end)
        return bool(self._run("advance", [BuildKeys(build).meta], args))

    def rows(self, build: Build, keys: Sequence[str]) -> list[Row | None]:
        if not keys:
            return []
        found: list[bytes | None] = self._redis.hmget(BuildKeys(build).rows, list(keys))
        return [wire.parse_row(value) if value is not None else None for value in found]

    def scan(self, build: Build, cursor: int, count: int) -> tuple[int, list[tuple[str, Row]]]:
        after, found = self._redis.hscan(BuildKeys(build).rows, cursor, count=count)
        return int(after), [(key.decode(), wire.parse_row(value)) for key, value in found.items()]

    def place(self, build: Build, every_ms: int, keep: int) -> None:
        b = BuildKeys(build)
        self._run("place", [b.meta, b.places], [every_ms, keep])

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

    def missed(self, view: str, version: int) -> Behind | None:
        v = ViewKeys(view)
        reply = self._run("missed", [v.view, v.steps, v.texts], [version])
        return wire.behind(reply) if reply is not None else None

    def go_live(self, build: Build, generation: int | None = None, *, fence: bool = False) -> str:
        v = ViewKeys(build.view)
        under = "" if generation is None else generation
        names = [v.view, BuildKeys(build).meta, v.ctl]
        old: bytes = self._run("go_live", names, [build.id, int(fence), under])
        return old.decode()

    def rebuild(self, build: Build, reason: str = "") -> None:
        b = BuildKeys(build)
        names = [b.meta, b.rows, b.log, b.last, b.since, ViewKeys(build.view).ctl, b.index, b.places]
        self._run("rebuild", names, [wire.fresh_epoch(), reason])

    def drop(self, build: Build) -> None:
        v, b = ViewKeys(build.view), BuildKeys(build)
        partitions = int(self._redis.hget(b.meta, "partitions") or 0)
        if self._redis.hget(v.view, "next") == build.id.encode():
            self._redis.hset(v.view, "next", "")
        self._redis.unlink(*b.all(partitions))

    def note(self, build: Build, **fields: str) -> None:
        name = BuildKeys(build).meta
        if self._redis.exists(name):
            self._redis.hset(name, mapping=fields)

    def fresh(self, view: str) -> None:
        name = ViewKeys(view).view
        if self._redis.exists(name):
            self._redis.hset(name, "fresh", str(self._now()))

    def drop_view(self, view: str) -> None:
        v = ViewKeys(view)
        found: dict[bytes, bytes] = self._redis.hgetall(v.view)
        self._redis.srem(keys.VIEWS, view)
        self._redis.xadd(v.ctl, {"gone": "1"})
        self._redis.expire(v.ctl, 60)
        self._redis.unlink(*v.registry)
        for field in (b"live", b"next"):
            if found.get(field):
                self.drop(Build(view, found[field].decode()))

    def beat(self, part: str, id: str, stats: str) -> None:
        self._redis.hset(keys.BEATS, f"{part}/{id}", f"{self._now()} {stats}")

    def beats(self) -> list[Beat]:
        return wire.beats(self._redis.hgetall(keys.BEATS), self._now())[0]

    def revocations(self) -> dict[str, int]:
        """Read of all users who was ever revoked, and when last (ms)."""
        found: dict[bytes, bytes] = self._redis.hgetall(keys.REVOKED)
        return {user.decode(): int(moment) for user, moment in found.items()}

    def revoke(self, moments: Mapping[str, int]) -> None:
        """Note revocations that another server gave the moment of; a later one that is here stays."""
        for user, moment in moments.items():
            self._run("revoke", [keys.REVOKED], [user, moment])

    def check(self) -> None:
        """Refuse a server that would throw rows away by itself (R6)."""
        policy = self._redis.config_get("maxmemory-policy").get("maxmemory-policy", "noeviction")
        if policy != "noeviction":
            raise StoreUnsuitable(
                f"the store's maxmemory-policy is {policy}: under pressure it would drop rows",
                hint="Set it to noeviction: CONFIG SET maxmemory-policy noeviction",
            )

    def flushed(self) -> bool:
        """Say whether the store has forgotten everything (FLUSHALL, an empty disk)."""
        return not self._redis.exists(keys.STORE)

    def views(self) -> dict[str, ViewInfo]:
        names: set[bytes] = self._redis.smembers(keys.VIEWS)
        out: dict[str, ViewInfo] = {}
        now, run = self._now(), self._run_id()
        for name in sorted(n.decode() for n in names):
            hash: dict[bytes, bytes] = self._redis.hgetall(ViewKeys(name).view)
            info = wire.view_info({k.decode(): v.decode() for k, v in hash.items()}, now, run)
            if info is not None:
                out[name] = info
        return out

    def build(self, build: Build) -> BuildInfo | None:
        b = BuildKeys(build)
        pipe = self._redis.pipeline(transaction=True)
        pipe.hgetall(b.meta).hlen(b.rows).xrange(b.log, "-", "+", count=1)
        meta, rows, oldest = pipe.execute()
        return wire.build_info(
            {k.decode(): v.decode() for k, v in meta.items()}, rows, wire.flat_entries(oldest)
        )

    def _settle(self, meta: str) -> None:
        """Let a Redis that restarted rewrite its file before it is written to again.

        Version 7.0 keeps a torn transaction at the end of a cut file and replays it at the next
        restart; Valkey does not (R13).
        """
        server = self._redis.info("server")
        known = self._redis.hget(meta, "run")
        if known is None or known.decode() == server["run_id"] or server.get("server_name") == "valkey":
            return
        if not self._redis.info("persistence")["aof_enabled"]:
            return
        self._redis.bgrewriteaof()
        deadline = time.monotonic() + REWRITE
        while self._redis.info("persistence")["aof_rewrite_in_progress"] and time.monotonic() < deadline:
            time.sleep(0.02)

    def _now(self) -> int:
        seconds, micros = self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def _run_id(self) -> str:
        return str(self._redis.info("server")["run_id"])


def _typed(error: redis.exceptions.ResponseError) -> Exception:
    """Turn an error reply of our scripts into the exception it names."""
    message = str(error)
    word = message.split(" ", 1)[0]
    kinds: dict[str, Callable[[str], Exception]] = {
        "FENCED": Fenced,
        "GONE": Fenced,
        "OWNER": wire.not_owner,
        "SUSPECT": Suspect,
        "TOPIC": TopicReplaced,
    }
    return kinds[word](message) if word in kinds else error
