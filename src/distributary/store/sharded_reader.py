"""Several servers as one store, for readers. One that is down takes no views along but its own.

What belongs to a view is asked of its server alone. What belongs to all is asked of all at once, and the
answers that come will do: names of views and beats are joined; a beat is written to all; a revocation is done
when all have it, so that any one of them tells of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from redis.exceptions import RedisError

from distributary.config.secrets import mask_text
from distributary.model.shard import shard_of
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
    youngest,
)
from distributary.store.reader import RedisReader
from distributary.store.tail import Build, TailEvent

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
        return [state._replace(views=self._names[at]) for at, state in seen.items()]

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
        self, view: str, query_id: str, text: str, subscription: str, ttl_ms: int, begun: bool
    ) -> Registered:
        return await self._of(view).register(view, query_id, text, subscription, ttl_ms, begun)

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

    async def end(self, view: str, subscription: str, *, tell: bool = False) -> bool:
        return await self._of(view).end(view, subscription, tell=tell)

    async def sweep(self, view: str) -> list[str]:
        return await self._of(view).sweep(view)

    async def query_text(self, view: str, query_id: str) -> QueryRow | None:
        return await self._of(view).query_text(view, query_id)

    async def query_state(self, view: str, query_id: str) -> QueryState | None:
        return await self._of(view).query_state(view, query_id)

    async def rows(self, build: Build, keys: Sequence[str]) -> Found:
        return await self._of(build.view).rows(build, keys)

    async def find(self, build: Build, field: str, value: str, limit: int) -> Found | None:
        return await self._of(build.view).find(build, field, value, limit)

    async def page(self, build: Build, cursor: int, count: int) -> Page:
        return await self._of(build.view).page(build, cursor, count)

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        return await self._of(build.view).log(build, after, limit)

    async def place(self, build: Build, *, seq: int | None = None, time: int | None = None) -> Place | None:
        return await self._of(build.view).place(build, seq=seq, time=time)

    async def revoke(self, user: str) -> int:
        """Note it on every server; raises when one does not take it, and may be called again."""
        moment, errors = 0, []
        for shard in self._shards.values():
            try:
                moment = await shard.revoke(user, moment)
            except _DOWN as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return moment

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for answer in (await self._all(lambda shard: shard.revoked(users))).values():
            for user, moment in answer.items():
                found[user] = max(moment, found.get(user, 0))
        return found

    def tail(self, view: str) -> AsyncGenerator[TailEvent, None]:
        return self._of(view).tail(view)

    async def beat(self, part: str, id: str, stats: str) -> None:
        await self._all(lambda shard: shard.beat(part, id, stats))

    async def beats(self) -> list[Beat]:
        answers = await self._all(lambda shard: shard.beats())
        return youngest(beat for answer in answers.values() for beat in answer)
