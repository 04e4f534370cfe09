"""The steps of a join, from a request to a live subscription (R18).

1. Find the query. One that is not begun yet ends here, with the outcome ``Waiting``.
2. Register the query: from then on every log entry says what it means to it.
3. Wait for a turn to be sent a state.
4. Start buffering the channel's publications, or materialize its rows.
5. Read what was missed, where the subscriber has a position that this is known for, else all rows.
6. Send that, then what was buffered beyond it, and go live, without an await in between.

When the data moves under a join (another epoch, a follower that was attached again), it starts over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from distributary.auth.metering import NEW_QUERY, charge
from distributary.config.sections import Limits
from distributary.errors import BadQuery, LimitExceeded
from distributary.model.command import Command
from distributary.model.position import Start
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.publication import Publication, project_publications
from distributary.publisher.hub import materialized_query
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.resume import ChangedKeys, read_missed
from distributary.publisher.hub.snapshot import Snapshot, read_shared, require_live
from distributary.publisher.hub.state_budget import StateBudget
from distributary.publisher.hub.subscription import (
    Initial,
    SubscribeRequest,
    Subscription,
    Waiting,
)
from distributary.publisher.hub.subscription_end import SubscriptionEnder
from distributary.publisher.metrics import Counters
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.store_types import QueryState, Registered, query_limits

log = logging.getLogger(__name__)

ROW_ESTIMATE = 1024
"""How many bytes a row is assumed to have of which only the key is known."""


class Joiner:
    """Brings subscriptions of one process to live."""

    def __init__(
        self,
        store: ReaderStore,
        *,
        stats: Counters,
        budget: StateBudget,
        ender: SubscriptionEnder,
        ttl_ms: int,
        buffer_bytes: int,
        max_materialized_rows: int,
        max_limit: int,
        limits: Limits,
        changed_keys: ChangedKeys | None,
    ) -> None:
        self._store = store
        self._stats = stats
        self._budget = budget
        self._ender = ender
        self._ttl_ms = ttl_ms
        # How much may be buffered for one join.
        self._buffer_bytes = buffer_bytes
        self._max_materialized_rows = max_materialized_rows
        # The most rows that a query with an order may ask for.
        self._max_limit = max_limit
        self._limits = limits
        self._changed_keys = changed_keys

    async def join(self, request: SubscribeRequest, subscription: Subscription) -> bool:
        """Try once to bring a subscription to live; False: try again at once.

        Raises StaleRead when the data moved, and Refused.
        """
        follower = subscription.follower
        query, begun = await self._query(request, subscription)
        if request.count is not None:
            subscription.reservation = await request.count(query)
        if not begun:
            await require_live(self._store, follower.build)
            return self._wait_for_begin(request, subscription)
        registered = await self._register(subscription, query)
        if registered.created:
            charge(NEW_QUERY)
        await self._wait_for_turn(subscription, query)
        self._start_buffering(subscription, registered.state, query)
        if request.start is not None and await self._recover(request, subscription, query, request.start):
            return True
        if request.position is not None and request.require_recovery and not subscription.detached:
            raise Refused(codes.UNRECOVERABLE)
        snapshot, buffered = await self._read_state(subscription)
        projected = snapshot.project(subscription.fields)
        subscription.answer(Initial(projected, follower.stale, request.start is not None))
        subscription.hand_over_turn(projected.size)
        self._go_live(subscription, buffered, "snapshot")
        return True

    async def begin(self, subscription: Subscription) -> None:
        """Send the snapshot that a subscription waits for, since it was begun."""
        follower = subscription.follower
        try:
            found = await self._store.subscription(follower.view, subscription.id)
            if found is None:
                raise StaleRead
            state = await self._store.query_state(follower.view, found.query_id)
            row = await self._store.query_text(follower.view, found.query_id)
            if state is None or row is None:
                raise StaleRead
            query = Query.load(follower.view, row.text)
            await self._wait_for_turn(subscription, query)
            if subscription.detached:
                raise StaleRead
            self._start_buffering(subscription, state, query)
            snapshot, buffered = await self._read_state(subscription)
        except Exception as error:
            if not isinstance(error, (StaleRead, Refused)):
                log.warning("view %s: a begun subscription cannot be served (%s)", follower.view, error)
            # It is told to subscribe again. The reply to that has its state, or why there is none.
            if not subscription.detached and subscription.answered:
                follower.release(subscription, codes.INSUFFICIENT)
        else:
            projected = snapshot.project(subscription.fields)
            subscription.sink.send_snapshot(projected, follower.stale)
            subscription.hand_over_turn(projected.size)
            self._go_live(subscription, buffered, "snapshot")
        finally:
            subscription.end_turn()

    # --- 1: the query -----------------------------------------------------------------------------------

    async def _query(self, request: SubscribeRequest, subscription: Subscription) -> tuple[Query, bool]:
        """Find the query, and whether its state may be sent now. Raises Refused."""
        view, query, query_id = request.query.view, request.query.query, request.query.query_id
        begun = True
        if request.subscription:
            # Added before the store is asked, so that a begin that comes in between is not missed.
            subscription.follower.subscriptions.add(subscription)
            found = await self._store.subscription(view, request.subscription)
            owned = request.grants.owns(request.subscription)
            if found is None or not owned or (query_id and found.query_id != query_id):
                what = f"its subscription {request.subscription[:64]!r} is not known or has lapsed"
                raise Refused(codes.unknown(f"{what}; create it again"))
            query_id, begun = found.query_id, found.begun or subscription.begun
        if query is None:
            row = await self._store.query_text(view, query_id)
            query = Query.load(view, row.text) if row is not None else None
            if query is None or not request.grants.covers(query):
                raise Refused(codes.unknown("no such query is registered, or it has lapsed"))
        if query.order is not None and query.order.limit > self._max_limit:
            raise Refused(
                codes.bad_request(f"limit is {query.order.limit:,}, and must be at most {self._max_limit:,}")
            )
        return query, begun

    def _wait_for_begin(self, request: SubscribeRequest, subscription: Subscription) -> bool:
        """Accept a subscription whose state is sent once it is begun; False when it was begun meanwhile."""
        if subscription.detached or subscription.begun:
            return False
        self._stats.joins["waiting"] += 1
        subscription.waiting = True
        subscription.answer(Waiting(subscription.follower.epoch, request.position is not None))
        return True

    # --- 2 to 4: register, wait, buffer -----------------------------------------------------------------

    async def _register(self, subscription: Subscription, query: Query) -> Registered:
        view = subscription.follower.view
        try:
            found = await self._store.register(
                view,
                query_id=query.id,
                text=query.text,
                subscription=subscription.id,
                ttl_ms=self._ttl_ms,
                begun=True,
                limits=query_limits(self._limits, query),
            )
        except LimitExceeded as error:
            raise Refused(codes.limited(error.message.partition(": ")[2])) from None
        except KeyError:
            raise Refused(codes.unknown(f"there is no view {view}")) from None
        except BadQuery as error:
            raise Refused(codes.bad_request(str(error))) from None
        if subscription.created_here:
            self._ender.announce(Command("subscribe", view, subscription.id, query.text))
        return found

    async def _wait_for_turn(self, subscription: Subscription, query: Query) -> None:
        """Wait until a state may be read and sent; only then anything is buffered. Raises Refused.

        Not before the store has replied: a server that does not would keep the turns of its views.
        """

        def expected_size() -> int | None:
            channel = subscription.follower.find(query)
            if channel is not None and channel.last_size is not None:
                return channel.last_size
            return None if query.keys is None else len(query.keys) * ROW_ESTIMATE

        if subscription.turn is None:
            subscription.turn = await self._budget.turn(expected_size)

    def _start_buffering(self, subscription: Subscription, state: QueryState, query: Query) -> None:
        """Buffer the channel's changes, or materialize its rows; the state is read after this.

        Raises StaleRead when the store replied on another history than the log is followed on: there the
        query's number may be another query's.
        """
        follower = subscription.follower
        if (state.epoch, state.history_id) != (follower.epoch, follower.history_id):
            raise StaleRead
        follower.subscriptions.add(subscription)
        channel = follower.channel(state.number, query)
        buffer = JoinBuffer(follower.epoch, follower.seq, max_bytes=self._buffer_bytes)
        if subscription.conflation is not None or query.order is not None:
            channel.materialize(subscription, buffer, self._max_materialized_rows)
        else:
            channel.start_buffering(subscription, buffer)

    # --- 5: read ----------------------------------------------------------------------------------------

    async def _recover(
        self, request: SubscribeRequest, subscription: Subscription, query: Query, start: Start
    ) -> bool:
        """Send exactly what was missed, if that is known, and go live."""
        if request.subscription and request.position is not None and request.position.seq == 0:
            return False  # it left while it waited for its begin: it never had a state
        if subscription.channel is not None and subscription in subscription.channel.needs_rows:
            if request.position is None or not await materialized_query.recover(
                self._store, subscription, request.position, self._max_materialized_rows
            ):
                return False
            self._stats.joins["recovered"] += 1
            self._send_freshness(subscription)
            return True
        build = subscription.follower.build
        found = await read_missed(
            self._store,
            build,
            query,
            start,
            as_rows=request.position is None,
            row_filtered=request.grants.has_row_filter(build.view),
            changed_keys=self._changed_keys,
        )
        if found is None or subscription.buffer is None or subscription.detached:
            return False
        buffered = subscription.buffer.flush(found.epoch, found.seq)
        if buffered is None:
            return False
        projected = found._replace(publications=project_publications(subscription.fields, found.publications))
        subscription.answer(projected)
        subscription.hand_over_turn(projected.size)
        self._go_live(subscription, buffered, "recovered")
        self._send_freshness(subscription)
        return True

    def _send_freshness(self, subscription: Subscription) -> None:
        """Tell a subscriber that resumed how fresh the view is: no snapshot told it."""
        sink, follower = subscription.sink, subscription.follower
        if follower.stale_after is not None:
            sink.write(sink.encoder().encode_notice(follower.freshness_notice()))

    async def _read_state(self, subscription: Subscription) -> tuple[Snapshot, Sequence[Publication]]:
        """Read the rows until they are not older than the buffer, and flush it. Raises StaleRead."""
        channel, buffer = subscription.channel, subscription.buffer
        if channel is not None and subscription in channel.needs_rows:
            rows = await materialized_query.read_state(self._store, subscription, self._max_materialized_rows)
            return rows, ()
        while channel is not None and buffer is not None and not subscription.detached:
            snapshot = await read_shared(self._store, subscription.follower.build, channel)
            buffered = None if subscription.detached else buffer.flush(snapshot.epoch, snapshot.seq)
            if buffered is not None:
                return snapshot, buffered
            if snapshot.epoch != buffer.epoch:
                break
        raise StaleRead

    # --- 6: live ----------------------------------------------------------------------------------------

    def _go_live(self, subscription: Subscription, buffered: Sequence[Publication], outcome: str) -> None:
        """Deliver what was buffered and go live. There is no await between the outcome and this."""
        self._stats.joins[outcome] += 1
        channel = subscription.channel
        if channel is not None and subscription in channel.needs_rows:
            conflated = channel.enter(subscription)
            if conflated is not None:
                conflated.start()
            return
        subscription.follower.send(subscription, buffered)
        subscription.follower.go_live_if_passed(subscription)
