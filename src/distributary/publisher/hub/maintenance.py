"""What is done at intervals: renew subscriptions, sweep lapsed ones, watch freshness, stop idle followers."""

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
LINGER = 10.0
"""How long the log of a view is still followed after the last subscriber left, in seconds."""


class Upkeep:
    """The rounds of one hub. A round that fails is logged and comes again."""

    def __init__(
        self, hub: Hub, *, poll: float = POLL, sweep: float = SWEEP_SECONDS, linger: float = LINGER
    ) -> None:
        self._hub = hub
        self._poll = poll
        self._sweep = sweep
        self._linger = linger

    async def run(self) -> None:
        """Do all rounds until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(self._poll, self.watch))
            group.create_task(self._every(self._sweep, self.sweep))
            group.create_task(self._every(self._hub.ttl_ms / 3000, self.renew))

    async def _every(self, seconds: float, round: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await round()
            except Exception as error:
                log.warning("upkeep: %s failed (%s)", round.__name__, error or type(error).__name__)

    async def renew(self) -> None:
        """Push the expiry of every subscription here ahead; whoever was forgotten subscribes again."""
        await _all(self._renew(follower) for follower in list(self._hub.followers.values()))

    async def _renew(self, follower: Follower) -> None:
        held = list(follower.members)
        if held:
            lapsed = set(await self._hub.store.renew(follower.view, follower.members.ids(), self._hub.ttl_ms))
            for member in held:
                if member.subscription in lapsed and member in follower.members:
                    follower.release(member, codes.INSUFFICIENT)

    async def sweep(self) -> None:
        """Remove lapsed subscriptions of all views, also of those that nobody here listens to."""
        views = await self._hub.store.views()
        self._hub.stats.keep({*views, *self._hub.followers})
        await sweep(self._hub.store, views, self._sweep, self._hub.tell_ended)

    async def watch(self) -> None:
        """Learn how fresh the views are, look for begins that were not heard, stop idle followers."""
        now = asyncio.get_running_loop().time()
        for view, follower in list(self._hub.followers.items()):
            if follower.gone or self._idle(follower, now):
                self._hub.stop_following(view)
        await _all(self._watch(view, follower) for view, follower in list(self._hub.followers.items()))

    async def _watch(self, view: str, follower: Follower) -> None:
        info = await self._hub.store.view(view)
        if info is not None:
            follower.learn(info)
        for id in {member.subscription for member in follower.members if member.waiting}:
            found = await self._hub.store.subscription(view, id)
            if found is not None and found.begun:
                self._hub.begun(follower, id)

    def _idle(self, follower: Follower, now: float) -> bool:
        if not follower.idle:
            follower.idle_since = None
        elif follower.idle_since is None:
            follower.idle_since = now
        return follower.idle_since is not None and now - follower.idle_since >= self._linger


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Make all calls, for one to a server that is down must not keep the others; raise the first failure."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
