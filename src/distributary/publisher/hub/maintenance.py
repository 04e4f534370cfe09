"""What a hub does at intervals: renew and sweep subscriptions, watch freshness, stop idle followers (R19)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from distributary.publisher.codec import codes
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.log_follower import Follower
from distributary.store.subscription_sweep import SWEEP_SECONDS, sweep

log = logging.getLogger(__name__)

POLL = 1.0
IDLE_SECONDS = 10.0
"""How long the log of a view is still followed after its last subscriber left."""


class Maintenance:
    """The periodic tasks of one hub. A round that fails is logged and comes again."""

    def __init__(
        self, hub: Hub, *, poll: float = POLL, sweep: float = SWEEP_SECONDS, idle: float = IDLE_SECONDS
    ) -> None:
        self._hub = hub
        # Seconds between two rounds of watching and of sweeping, and until an idle follower is stopped.
        self._poll = poll
        self._sweep = sweep
        self._idle_seconds = idle

    async def run(self) -> None:
        """Run all periodic tasks until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(self._poll, self.watch))
            group.create_task(self._every(self._sweep, self.sweep))
            # Two renewals may fail before a subscription lapses.
            group.create_task(self._every(self._hub.ttl_ms / 3000, self.renew))

    async def _every(self, seconds: float, round: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await round()
            except Exception as error:
                log.warning("maintenance: %s failed (%s)", round.__name__, error or type(error).__name__)

    async def renew(self) -> None:
        """Extend the expiry of all subscriptions; subscribers of those that have lapsed subscribe again."""
        await _all(self._renew(follower) for follower in list(self._hub.followers.values()))

    async def _renew(self, follower: Follower) -> None:
        subscriptions = list(follower.subscriptions)
        if subscriptions:
            ids = follower.subscriptions.ids()
            lapsed = set(await self._hub.store.renew(follower.view, ids, self._hub.ttl_ms))
            for subscription in subscriptions:
                if subscription.id in lapsed and subscription in follower.subscriptions:
                    follower.release(subscription, codes.INSUFFICIENT)

    async def sweep(self) -> None:
        """Remove lapsed subscriptions of all views, also of those that no one here follows."""
        views = await self._hub.store.views()
        self._hub.stats.keep({*views, *self._hub.followers})
        await sweep(self._hub.store, views, self._sweep, self._hub.ender.announce_ended)

    async def watch(self) -> None:
        """Check the views' freshness, look for begins that were missed, stop idle followers."""
        now = asyncio.get_running_loop().time()
        for view, follower in list(self._hub.followers.items()):
            if follower.gone or self._is_idle(follower, now):
                self._hub.stop_following(view)
        await _all(self._watch(view, follower) for view, follower in list(self._hub.followers.items()))

    async def _watch(self, view: str, follower: Follower) -> None:
        info = await self._hub.store.view(view)
        if info is not None:
            follower.update(info)
        for id in {one.id for one in follower.subscriptions if one.waiting}:
            found = await self._hub.store.subscription(view, id)
            if found is not None and found.begun:
                self._hub.on_begin(follower, id)

    def _is_idle(self, follower: Follower, now: float) -> bool:
        if not follower.idle:
            follower.idle_since = None
        elif follower.idle_since is None:
            follower.idle_since = now
        return follower.idle_since is not None and now - follower.idle_since >= self._idle_seconds


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Run all calls, since one to a server that is down must not stop the others; raise the first error."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
