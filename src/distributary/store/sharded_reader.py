"""Several servers as one store, for readers. One that is down takes no views along but its own.

What belongs to a view is asked of its server alone. What belongs to all is asked of all at once, and the
answers that come will do: names of views and beats are joined; a beat is written to all.

A revocation is done when all servers have it, so that any one of them tells of it. One that was down
meanwhile may lack it, and cannot know: so a server counts as whole only after it answered together with all
others, when what it lacked is written to it, and until it fails to answer. As long as some do not answer, one
that is whole must; else nobody is let in. That every server must always answer would be simpler, and one that
is down would lock everybody out; to repair only what is read would leave out whoever does not come meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from redis.exceptions import RedisError

from distributary.config.secrets import mask_text
from distributary.model.build import Build
from distributary.model.sharding import shard_of
from distributary.store.redis_reader import RedisReader
from distributary.store.store_types import (
    NO_QUERY_LIMITS,
    BuildCheckpoint,
    BuildInfo,
    Heartbeat,
    LogRead,
    Page,
    QueryLimits,
    QueryRow,
    QueryState,
    Registered,
    RowsRead,
    ServerState,
    Subscription,
    TailEvent,
    ViewInfo,
    latest_heartbeats,
)

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds that a server has to answer what is asked of all."""

AGAIN = 2.0
"""Seconds for which a server that did not is left out."""

T = TypeVar("T")
_DOWN = (RedisError, OSError, TimeoutError)


class ShardedReader:
    """Implements ``ReaderStore`` on several servers."""

    def __init__(self, addresses: Sequence[str], *, timeout: float = 10.0) -> None:
        self._addresses = tuple(addresses)
        self._shards = {address: RedisReader(address, timeout=timeout) for address in addresses}
        self._failed: dict[str, float] = {}
        self._whole: set[str] = set()
        self._spreading = asyncio.Lock()
        self._names: dict[str, list[str]] = {address: [] for address in addresses}

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(shard.close() for shard in self._shards.values()))

    def _of(self, view: str) -> RedisReader:
        return self._shards[shard_of(view, self._addresses)]

    async def _all(self, call: Callable[[RedisReader], Awaitable[T]]) -> dict[str, T]:
        """Ask all servers at once and give the answers that come, by address; raises when none does."""
        now = time.monotonic()
        asked = [at for at in self._addresses if now - self._failed.get(at, -AGAIN) >= AGAIN]
        found: dict[str, T] = {}
        errors: list[Exception] = []

        async def ask(address: str) -> None:
            try:
                async with asyncio.timeout(PATIENCE):
                    found[address] = await call(self._shards[address])
            except _DOWN as error:
                if address not in self._failed:
                    log.warning("the store at %s does not answer: %s", mask_text(address), error)
                self._failed[address] = time.monotonic()
                self._whole.discard(address)
                errors.append(error)
            else:
                self._failed.pop(address, None)

        await asyncio.gather(*(ask(address) for address in asked or self._addresses))
        if not found:
            raise errors[0]
        return found

    async def ping(self) -> None:
        """Raise unless a server answers."""
        await self._all(lambda shard: shard.ping())

    async def servers(self) -> list[ServerState]:
        states = await asyncio.gather(*(self._shards[at].servers() for at in self._addresses))
        seen = {at: state[0] for at, state in zip(self._addresses, states, strict=True)}
        self._learn({at: state.views for at, state in seen.items() if state.answers})
        return [replace(state, views=self._names[at]) for at, state in seen.items()]

    def _learn(self, found: dict[str, list[str]]) -> None:
        """Keep the names of each server's own views; another list of servers may have left it others."""
        for address, names in found.items():
            self._names[address] = [name for name in names if self._of(name) is self._shards[address]]

    async def views(self) -> list[str]:
        found = await self._all(lambda shard: shard.views())
        self._learn(found)
        return sorted(name for address in found for name in self._names[address])

    async def view(self, view: str) -> ViewInfo | None:
        return await self._of(view).view(view)

    async def build(self, build: Build) -> BuildInfo | None:
        return await self._of(build.view).build(build)

    async def register(
        self,
        view: str,
        query_id: str,
        text: str,
        subscription: str,
        ttl_ms: int,
        begun: bool,
        limits: QueryLimits = NO_QUERY_LIMITS,
    ) -> Registered:
        return await self._of(view).register(view, query_id, text, subscription, ttl_ms, begun, limits)

    async def subscription(self, view: str, subscription: str) -> Subscription | None:
        return await self._of(view).subscription(view, subscription)

    async def find_subscription(self, subscription: str) -> str | None:
        """Name its view. One that nobody has who answers may be with one that does not: then it raises."""
        found = await self._all(lambda shard: shard.find_subscription(subscription))
        views = [view for view in found.values() if view is not None]
        if not views and len(found) < len(self._shards):
            raise ConnectionError("not every server of the store answers")
        return views[0] if views else None

    async def begin(self, view: str, subscription: str, ttl_ms: int) -> bool:
        return await self._of(view).begin(view, subscription, ttl_ms)

    async def renew(self, view: str, subscriptions: Sequence[str], ttl_ms: int) -> list[str]:
        return await self._of(view).renew(view, subscriptions, ttl_ms)

    async def end(self, view: str, subscription: str, *, notify: bool = False) -> bool:
        return await self._of(view).end(view, subscription, notify=notify)

    async def sweep(self, view: str) -> list[str]:
        return await self._of(view).sweep(view)

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        return await self._of(view).query_text(view, query_id)

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        return await self._of(view).query_state(view, query_id)

    async def rows(self, build: Build, keys: Sequence[str]) -> RowsRead:
        return await self._of(build.view).rows(build, keys)

    async def find_by_index(self, build: Build, field: str, value: str, limit: int) -> RowsRead | None:
        return await self._of(build.view).find_by_index(build, field, value, limit)

    async def page(self, build: Build, cursor: int, count: int) -> Page:
        return await self._of(build.view).page(build, cursor, count)

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        return await self._of(build.view).log(build, after, limit)

    async def find_checkpoint(
        self, build: Build, *, seq: int | None = None, time: int | None = None
    ) -> BuildCheckpoint | None:
        return await self._of(build.view).find_checkpoint(build, seq=seq, time=time)

    async def revoke(self, user: str, *, keep_ms: int = 0) -> int:
        """Note it on every server; raises when one does not take it, and may be called again."""
        moment, errors = 0, []
        for address, shard in self._shards.items():
            try:
                moment = await shard.revoke(user, moment, keep_ms=keep_ms)
            except _DOWN as error:
                self._whole.discard(address)
                errors.append(error)
        if errors:
            raise errors[0]
        return moment

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        if not users:
            return {}
        answers = await self._all(lambda shard: shard.revoked(users))
        if len(answers) == len(self._addresses):
            with contextlib.suppress(*_DOWN):  # together they know everything; it is tried again
                await self._spread()
        elif not self._whole & answers.keys():
            raise ConnectionError(
                "not every server answers, and those that do may have missed a revocation meanwhile"
            )
        return latest(answers.values())

    async def _spread(self) -> None:
        """Write to every server the revocations that it lacks, unless all are known to be whole."""
        async with self._spreading:
            if len(self._whole) == len(self._addresses):
                return
            notes = await self._all(lambda shard: shard.revocations())
            if len(notes) < len(self._addresses):
                return
            known = latest(notes.values())
            for address, held in notes.items():
                for user, moment in known.items():
                    if held.get(user, 0) < moment:
                        await self._shards[address].revoke(user, moment)
            self._whole = set(self._addresses)

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        return await self._of(what).reserve(what, holder, change, limit, ttl_ms)

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        for what, amount in amounts.items():
            await self._of(what).renew_reservations(holder, {what: amount}, ttl_ms)

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        return await self._of(what).spend(what, cost, rate, burst)

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        return self._of(view).tail(view)

    async def heartbeat(self, component: str, id: str, stats: str) -> None:
        await self._all(lambda shard: shard.heartbeat(component, id, stats))

    async def heartbeats(self) -> list[Heartbeat]:
        answers = await self._all(lambda shard: shard.heartbeats())
        return latest_heartbeats(beat for answer in answers.values() for beat in answer)


def latest(notes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Join what servers say of users: the last moment (ms) at which each was revoked."""
    found: dict[str, int] = {}
    for one in notes:
        for user, moment in one.items():
            found[user] = max(moment, found.get(user, 0))
    return found
