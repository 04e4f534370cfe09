"""Several servers as one store, for readers. A server that is down affects only its own views.

A call about a view goes to its server alone. Other calls go to all servers at once, and the responses that
arrive are enough: names of views and heartbeats are joined; a heartbeat is written to all.

A revocation is complete when all servers have it, so that any one of them can report it. A server that was
down meanwhile may lack it without knowing. So a server counts as complete only after it responded together
with all others, when the revocations it lacked are written to it, and until it fails to respond. As long as
some servers do not respond, one that is complete must; otherwise all tokens are rejected. To require every
server at all times would be simpler, but one that is down would lock everyone out; to repair only the users
that are read would leave out those that do not connect in between.
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
from distributary.store.log_events import TailEvent
from distributary.store.redis_reader import RedisReader
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
    latest_heartbeats,
)

log = logging.getLogger(__name__)

TIMEOUT = 2.0
"""Time-out (s) for calls to all servers."""

RETRY_SECONDS = 2.0
"""A server that did not respond is skipped for so long."""

T = TypeVar("T")
_DOWN = (RedisError, OSError, TimeoutError)


class ShardedReader:
    """Implements ``ReaderStore`` on several servers."""

    def __init__(self, addresses: Sequence[str], *, timeout: float = 10.0) -> None:
        self._addresses = tuple(addresses)
        self._shards = {address: RedisReader(address, timeout=timeout) for address in addresses}
        # When each server that does not respond was last called.
        self._failed: dict[str, float] = {}
        # The servers that are known to have all revocations.
        self._complete: set[str] = set()
        self._sharing = asyncio.Lock()
        # The views of each server at its last response.
        self._names: dict[str, list[str]] = {address: [] for address in addresses}

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(shard.close() for shard in self._shards.values()))

    def _of(self, view: str) -> RedisReader:
        return self._shards[shard_of(view, self._addresses)]

    async def _all(self, call: Callable[[RedisReader], Awaitable[T]]) -> dict[str, T]:
        """Call all servers at once and return the responses that arrive, by address; raise if none does."""
        now = time.monotonic()
        available = [
            at for at in self._addresses if now - self._failed.get(at, -RETRY_SECONDS) >= RETRY_SECONDS
        ]
        found: dict[str, T] = {}
        errors: list[Exception] = []

        async def call_one(address: str) -> None:
            try:
                async with asyncio.timeout(TIMEOUT):
                    found[address] = await call(self._shards[address])
            except _DOWN as error:
                if address not in self._failed:
                    log.warning("the store at %s does not respond: %s", mask_text(address), error)
                self._failed[address] = time.monotonic()
                self._complete.discard(address)
                errors.append(error)
            else:
                self._failed.pop(address, None)

        await asyncio.gather(*(call_one(address) for address in available or self._addresses))
        if not found:
            raise errors[0]
        return found

    async def ping(self) -> None:
        """Raise unless a server responds."""
        await self._all(lambda shard: shard.ping())

    async def servers(self) -> list[ServerState]:
        states = await asyncio.gather(*(self._shards[at].servers() for at in self._addresses))
        found = {at: state[0] for at, state in zip(self._addresses, states, strict=True)}
        self._update_names({at: state.views for at, state in found.items() if state.answers})
        return [replace(state, views=self._names[at]) for at, state in found.items()]

    def _update_names(self, found: dict[str, list[str]]) -> None:
        """Store the names of each server's own views; another list of servers may have left others there."""
        for address, names in found.items():
            self._names[address] = [name for name in names if self._of(name) is self._shards[address]]

    async def views(self) -> list[str]:
        found = await self._all(lambda shard: shard.views())
        self._update_names(found)
        return sorted(name for address in found for name in self._names[address])

    async def view(self, view: str) -> ViewInfo | None:
        return await self._of(view).view(view)

    async def build(self, build: Build) -> BuildInfo | None:
        return await self._of(build.view).build(build)

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
        return await self._of(view).register(
            view,
            query_id=query_id,
            text=text,
            subscription=subscription,
            ttl_ms=ttl_ms,
            begun=begun,
            limits=limits,
        )

    async def subscription(self, view: str, subscription: str) -> StoredSubscription | None:
        return await self._of(view).subscription(view, subscription)

    async def find_subscription(self, subscription: str) -> str | None:
        """Return its view. If no server that responds has it, and one does not respond, raise."""
        found = await self._all(lambda shard: shard.find_subscription(subscription))
        views = [view for view in found.values() if view is not None]
        if not views and len(found) < len(self._shards):
            raise ConnectionError("not every server of the store responds")
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

    async def page(self, build: Build, cursor: int, count: int) -> RowPage:
        return await self._of(build.view).page(build, cursor, count)

    async def log(self, build: Build, after: int, limit: int) -> LogRead:
        return await self._of(build.view).log(build, after, limit)

    async def find_checkpoint(
        self, build: Build, *, seq: int | None = None, time: int | None = None
    ) -> BuildCheckpoint | None:
        return await self._of(build.view).find_checkpoint(build, seq=seq, time=time)

    async def revoke(self, user: str, *, keep_ms: int = 0) -> int:
        """Revoke on every server; raise if one fails. It may be called again."""
        at, errors = 0, []
        for address, shard in self._shards.items():
            try:
                at = await shard.revoke(user, at, keep_ms=keep_ms)
            except _DOWN as error:
                self._complete.discard(address)
                errors.append(error)
        if errors:
            raise errors[0]
        return at

    async def revoked(self, users: Sequence[str]) -> dict[str, int]:
        if not users:
            return {}
        answers = await self._all(lambda shard: shard.revoked(users))
        if len(answers) == len(self._addresses):
            with contextlib.suppress(*_DOWN):  # together they are complete; it is retried later
                await self._share_revocations()
        elif not self._complete & answers.keys():
            raise ConnectionError("not every server responds, and those that do may have missed a revocation")
        return latest(answers.values())

    async def _share_revocations(self) -> None:
        """Write to every server the revocations that it lacks, unless all are known to be complete."""
        async with self._sharing:
            if len(self._complete) == len(self._addresses):
                return
            found = await self._all(lambda shard: shard.revocations())
            if len(found) < len(self._addresses):
                return
            known = latest(found.values())
            for address, stored in found.items():
                for user, at in known.items():
                    if stored.get(user, 0) < at:
                        await self._shards[address].revoke(user, at)
            self._complete = set(self._addresses)

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

    async def heartbeats(self) -> list[ProcessHeartbeat]:
        responses = await self._all(lambda shard: shard.heartbeats())
        return latest_heartbeats(one for response in responses.values() for one in response)


def latest(revocations: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Join the revocations of several servers: the time (ms) of the last one of each user."""
    found: dict[str, int] = {}
    for one in revocations:
        for user, at in one.items():
            found[user] = max(at, found.get(user, 0))
    return found
