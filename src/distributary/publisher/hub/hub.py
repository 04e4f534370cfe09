"""Where subscribers meet views: the followers of the views, and who joins and leaves them.

Nothing here that another publisher would need outlives the process: a subscription and its query are in the
store, and a client knows its own position, so it can go on at any publisher.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from contextvars import Context

from distributary.config.sections import Limits
from distributary.model.position import Position
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.hub.history import History, read_backwards, read_forwards
from distributary.publisher.hub.joiner import Joiner
from distributary.publisher.hub.log_follower import Follower
from distributary.publisher.hub.resume import ChangedKeys
from distributary.publisher.hub.state_budget import StateBudget
from distributary.publisher.hub.subscription import Sink, SubscribeRequest, Subscription
from distributary.publisher.hub.subscription_end import Announce, SubscriptionEnder, cancel
from distributary.publisher.metrics import Counters
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

JOIN_ATTEMPTS = 8
HISTORY_LIMIT = 1_000
MATERIALIZED_ROWS = 100_000
MAX_LIMIT = 1_000
STATE_BYTES = 256 << 20
ATTACH_TIMEOUT = 5.0
REATTACH_TIMEOUT = 0.5
"""Seconds to wait until a follower is attached, at first, and again where its data moved."""


class FollowerPool:
    """One follower per view, each in a task of its own, started when it is first needed."""

    def __init__(
        self, store: ReaderStore, stats: Counters, on_begin: Callable[[Follower, str], None]
    ) -> None:
        self.by_view: dict[str, Follower] = {}
        self._store = store
        self._stats = stats
        self._on_begin = on_begin
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    async def get(self, view: str) -> Follower:
        """Return a view's follower, started if need be, once it is attached. Raises Refused, TimeoutError."""
        follower = self.by_view.get(view)
        if follower is None or follower.gone:
            info = await self._store.view(view)
            if info is None or not info.live:
                raise Refused(codes.unknown(f"there is no view {view[:200]}"))
            follower = self.by_view.get(view)  # another join may have been faster
            if follower is None or follower.gone:
                follower = self.by_view[view] = Follower(self._store, view, self._stats, self._on_begin)
                follower.update(info)
                # In a context of its own: the first user must not be charged for what all others cause.
                self._tasks[view] = asyncio.create_task(
                    follower.run(), name=f"follow {view}", context=Context()
                )
        if not follower.attachments:
            await follower.wait_attached(0, ATTACH_TIMEOUT)
        if follower.gone:
            raise Refused(codes.unknown(f"there is no view {view[:200]}"))
        return follower

    async def wait_reattached(self, follower: Follower, attachments: int) -> None:
        """Wait a moment until a follower is attached again. Raises Refused when the view is gone."""
        if follower.attachments == attachments:
            with contextlib.suppress(TimeoutError):
                await follower.wait_attached(attachments, REATTACH_TIMEOUT)
        if follower.gone:
            raise Refused(codes.unknown(f"there is no view {follower.view}"))

    def stop(self, view: str) -> None:
        """Stop following a view, which must have no subscriptions."""
        self.by_view.pop(view, None)
        task = self._tasks.pop(view, None)
        if task is not None:
            stopping = asyncio.create_task(cancel(task))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def close(self) -> None:
        """Stop following all views."""
        for view in list(self.by_view):
            self.stop(view)
        await asyncio.gather(*self._stopping)


class Hub:
    """All views that this process follows, and their subscriptions."""

    def __init__(
        self,
        store: ReaderStore,
        *,
        ttl: float,
        buffer_bytes: int,
        stats: Counters,
        announce: Announce | None = None,
        changed_keys: ChangedKeys | None = None,
        max_materialized_rows: int = MATERIALIZED_ROWS,
        max_limit: int = MAX_LIMIT,
        state_bytes: int = STATE_BYTES,
        limits: Limits | None = None,
    ) -> None:
        self.store = store
        self.stats = stats
        # Bounds the memory of states that subscribers have still to read.
        self.budget = StateBudget(state_bytes)
        # After which time a subscription lapses that no publisher renews.
        self.ttl_ms = int(ttl * 1000)
        # Ends subscriptions in the store and announces them.
        self.ender = SubscriptionEnder(store, ttl, announce)
        self._pool = FollowerPool(store, stats, self.on_begin)
        self._joiner = Joiner(
            store,
            stats=stats,
            budget=self.budget,
            ender=self.ender,
            ttl_ms=self.ttl_ms,
            buffer_bytes=buffer_bytes,
            max_materialized_rows=max_materialized_rows,
            max_limit=max_limit,
            limits=limits or Limits(),
            changed_keys=changed_keys,
        )

    async def join(self, request: SubscribeRequest, sink: Sink) -> Subscription:
        """Bring a subscriber to live; its sink was sent the outcome when this returns. Raises Refused.

        When this is cancelled, or raises, nothing of the subscriber is left in the hub.
        """
        try:
            follower = await self._pool.get(request.query.view)
        except Refused:
            self.stats.joins["refused"] += 1
            raise
        except Exception as error:
            raise self._failed(request, error) from error
        subscription = Subscription(
            follower,
            request.subscription or str(uuid.uuid4()),
            sink,
            created_here=not request.subscription,
            conflation=request.conflation,
            fields=request.query.fields,
        )
        follower.joins += 1
        done = False
        try:
            for _ in range(JOIN_ATTEMPTS):
                follower.drop(subscription)  # whatever the last attempt left
                subscription.detached = False
                if await self._attempt(request, subscription):
                    done = True
                    return subscription
            raise Refused(codes.INTERNAL)
        except Refused:
            self.stats.joins["refused"] += 1
            if subscription.created_here:
                self.ender.end(subscription)
            raise
        except Exception as error:
            self.ender.abandon(subscription)
            raise self._failed(request, error) from error
        except asyncio.CancelledError:  # the subscriber left, maybe after its query was registered
            self.ender.abandon(subscription)
            raise
        finally:
            follower.joins -= 1
            subscription.end_turn()
            if not done:
                follower.drop(subscription)

    async def _attempt(self, request: SubscribeRequest, subscription: Subscription) -> bool:
        """Try once to join; False: try again."""
        attachments = subscription.follower.attachments
        try:
            return await self._joiner.join(request, subscription)
        except StaleRead:
            await self._pool.wait_reattached(subscription.follower, attachments)
            return False

    def _failed(self, request: SubscribeRequest, error: Exception) -> Refused:
        self.stats.joins["refused"] += 1
        log.warning("view %r: a join failed (%s)", request.query.view[:200], error or type(error).__name__)
        return Refused(codes.INTERNAL)

    def on_begin(self, follower: Follower, id: str) -> None:
        """Send the state of a subscription that was begun, if it waits here."""
        for subscription in follower.subscriptions.by_id(id):
            subscription.begun = True
            if subscription.waiting:
                subscription.waiting = False
                self.ender.spawn(self._joiner.begin(subscription))

    def leave(self, subscription: Subscription, *, end: bool) -> None:
        """Remove a subscription. With ``end`` it ends at once, else it lapses when its time is over.

        One that another connection has as well goes on.
        """
        subscription.follower.drop(subscription)
        subscription.detached = True  # whatever is under way for it stops
        if not end:
            self.ender.abandon(subscription)
        elif not subscription.follower.subscriptions.by_id(subscription.id):
            self.ender.end(subscription)

    async def history(
        self, subscription: Subscription, since: Position | None, limit: int, *, reverse: bool = False
    ) -> History:
        """Read publications of a subscription's channel after a position, or before it. Raises Refused."""
        channel, follower = subscription.channel, subscription.follower
        if channel is None or channel.query.order is not None:  # the log does not say which rows are first
            raise Refused(codes.NOT_AVAILABLE)
        most = HISTORY_LIMIT if limit < 0 else min(limit, HISTORY_LIMIT)
        try:
            read = read_backwards if reverse else read_forwards
            return await read(
                self.store, follower.build, channel.query, since, limit=most, fields=subscription.fields
            )
        except StaleRead:
            raise Refused(codes.UNRECOVERABLE) from None
        except Refused:
            raise
        except Exception as error:
            log.warning("view %s: its history cannot be read (%s)", follower.view, error)
            raise Refused(codes.INTERNAL) from error

    @property
    def followers(self) -> dict[str, Follower]:
        """The views that are followed, by name."""
        return self._pool.by_view

    def stop_following(self, view: str) -> None:
        """Stop following a view that has no subscriptions."""
        self._pool.stop(view)

    async def close(self) -> None:
        """Stop everything; subscribers are not told."""
        await self._pool.close()
        await self.ender.close()
