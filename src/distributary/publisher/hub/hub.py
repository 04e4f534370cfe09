"""Where subscribers meet views: joins, leaves, and what keeps subscriptions alive.

Nothing here outlives the process that another publisher would need: a subscription and its query are in the
store, and a client's position is with the client, so it can go on at any publisher.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.auth import EVERYTHING, GrantSet
from distributary.auth.metering import NEW_QUERY, charge
from distributary.auth.reservations import Reservation
from distributary.config.sections import Limits
from distributary.errors import BadQuery, DistributaryError, LimitExceeded
from distributary.model.command import Command
from distributary.model.position import Position, Start
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.codec.websocket_frames import Pub
from distributary.publisher.hub import field_projection, history, materialized_query, store_reads
from distributary.publisher.hub.catch_up import Touched
from distributary.publisher.hub.conflation import Pace
from distributary.publisher.hub.follower_pool import Followers, cancelled
from distributary.publisher.hub.join_buffer import Joining
from distributary.publisher.hub.lingering import Left, Lingering
from distributary.publisher.hub.log_follower import Follower
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Budget
from distributary.publisher.hub.subscription import Initial, Member, Sink, Waiting
from distributary.publisher.metrics import Stats
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.store_types import QueryState, Registered, query_limits

log = logging.getLogger(__name__)

Announce = Callable[[Command], Awaitable[None]]
Count = Callable[[Query], Awaitable[Reservation | None]]

ATTEMPTS = 8
HISTORY_LIMIT = 1_000
KEPT_ROWS = 100_000
TOP_ROWS = 1_000
STATE_BYTES = 256 << 20
KEY_BYTES = 1024
"""How large a row is guessed to be of which only the key is known."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a subscriber asks the hub for.

    ``position`` is where it was when it was lost. ``since`` is where somebody begins who has rows already, a
    position or a time (ms); it counts where there is no ``position``. ``reject``: refuse rather than give the
    state anew. ``pace``: the newest rows rather than every change. ``held`` is what the subscriber may have;
    a query that ``asked`` holds itself is narrowed by it already. ``count`` is called with the query before
    it is registered, maybe more than once; it gives what the query counts as, None for nothing, and raises
    Refused where the subscriber has too many.
    """

    asked: ChannelQuery
    subscription: str = ""
    position: Position | None = None
    reject: bool = False
    since: Start | None = None
    pace: Pace | None = None
    held: GrantSet = EVERYTHING
    count: Count | None = None

    @property
    def start(self) -> Start | None:
        """From where on something is wanted; None when the state is."""
        return self.position if self.position is not None else self.since


class Hub:
    """All views that somebody here listens to."""

    def __init__(
        self,
        store: ReaderStore,
        *,
        ttl: float,
        hold_bytes: int,
        stats: Stats,
        announce: Announce | None = None,
        replay: Touched | None = None,
        max_materialized_rows: int = KEPT_ROWS,
        max_limit: int = TOP_ROWS,
        state_bytes: int = STATE_BYTES,
        limits: Limits | None = None,
    ) -> None:
        self.store = store
        self.stats = stats
        self.states = Budget(state_bytes)
        self.ttl_ms = int(ttl * 1000)
        self._hold_bytes = hold_bytes
        self._max_materialized_rows = max_materialized_rows
        self._max_limit = max_limit
        self._limits = limits or Limits()
        self._announce = announce
        self._replay = replay
        self._followers = Followers(store, stats, self.begun)
        self._tasks: set[asyncio.Task[None]] = set()
        self._lingering = Lingering(ttl)

    # --- join -------------------------------------------------------------------------------------------

    async def join(self, wish: Wish, sink: Sink) -> Member:
        """Bring a subscriber to live; its sink was told the outcome when this returns. Raises Refused.

        When this is cancelled, or raises, nothing of the subscriber is left in the hub.
        """
        try:
            follower = await self._followers.need(wish.asked.view)
        except Refused:
            self.stats.joins["refused"] += 1
            raise
        except Exception as error:
            raise self._failed(wish, error) from error
        member = Member(
            follower,
            wish.subscription or str(uuid.uuid4()),
            sink,
            ours=not wish.subscription,
            pace=wish.pace,
        )
        member.fields = wish.asked.fields
        follower.joins += 1
        done = False
        try:
            for _ in range(ATTEMPTS):
                follower.drop(member)  # whatever the last attempt left
                member.retry()
                if await self._attempt(wish, member):
                    done = True
                    return member
            raise Refused(codes.INTERNAL)
        except Refused:
            self.stats.joins["refused"] += 1
            if member.ours:
                self._end(member)
            raise
        except Exception as error:
            self._linger(member)
            raise self._failed(wish, error) from error
        except asyncio.CancelledError:  # the subscriber left, maybe after its query was registered
            self._linger(member)
            raise
        finally:
            follower.joins -= 1
            member.end_turn()
            if not done:
                follower.drop(member)

    def leave(self, member: Member, *, end: bool) -> None:
        """Take a member out. With ``end`` its subscription ends at once, else it lapses with its time.

        One that another connection has as well goes on.
        """
        member.follower.drop(member)
        member.lose()  # whatever is under way for it ends
        if not end:
            self._linger(member)
        elif not member.follower.members.of(member.subscription):
            self._end(member)

    def _linger(self, member: Member) -> None:
        """Let a subscription lapse, unless its user has too many of these already."""
        if member.share is None or not member.ours:  # one that the control API made is counted there
            return
        left = Left(member.follower.view, member.subscription)
        for view, subscription in self._lingering.add(member.share, left):
            self._spawn(self._end_in_store(view, subscription, tell=False))

    async def tell_ended(self, view: str, subscriptions: Sequence[str]) -> None:
        """Say that subscriptions have ended: a view without writes hears of it only thus."""
        await asyncio.gather(*(self._tell(Command("end", view, id)) for id in subscriptions))

    async def _attempt(self, wish: Wish, member: Member) -> bool:
        """Try once to bring a member to live; False when the ground moved: try again."""
        follower = member.follower
        attachments = follower.attachments
        try:
            query, begun = await self._query(wish, member)
            if wish.count is not None:
                member.share = await wish.count(query)
            if not begun:
                await store_reads.require_live(self.store, follower.build)
                return self._wait(wish, member)
            registered = await self._register(member, query)
            if registered.created:
                charge(NEW_QUERY)
            await self._turn(member, query)
            self._hold(member, registered.state, query)
            if wish.start is not None and await self._recover(wish, member, query, wish.start):
                return True
            if wish.position is not None and wish.reject and not member.lost():
                raise Refused(codes.UNRECOVERABLE)
            snapshot, held = await self._state(member)
        except StaleRead:
            await self._followers.catch_up(follower, attachments)
            return False
        chosen = snapshot.of(member.fields)
        member.tell(Initial(chosen, follower.stale, wish.start is not None))
        member.sent(chosen.size)
        self._live(member, held, "snapshot")
        return True

    async def _turn(self, member: Member, query: Query) -> None:
        """Wait until a state may be read and sent; only then something is held. Raises Refused.

        Not before the store has answered: a server that does not would keep the turns of its views.
        """

        def expected() -> int | None:
            channel = member.follower.find(query)
            if channel is not None and channel.size is not None:
                return channel.size
            return None if query.keys is None else len(query.keys) * KEY_BYTES

        if member.turn is None:
            member.turn = await self.states.turn(expected)

    async def _query(self, wish: Wish, member: Member) -> tuple[Query, bool]:
        """Find the query, and whether its state may be given now."""
        view, query, query_id = wish.asked.view, wish.asked.query, wish.asked.query_id
        begun = True
        if wish.subscription:
            # Known here before the store is asked: a begin that comes in between is then not missed.
            member.follower.members.add(member)
            found = await self.store.subscription(view, wish.subscription)
            mine = wish.held.owns(wish.subscription)
            if found is None or not mine or (query_id and found.query_id != query_id):
                what = f"the subscription {wish.subscription[:64]!r} of it is not known or has lapsed"
                raise Refused(codes.unknown(f"{what}; make it again"))
            query_id, begun = found.query_id, found.begun or member.begun
        if query is None:
            row = await self.store.query_text(view, query_id)
            query = Query.load(view, row.text) if row is not None else None
            if query is None or not wish.held.covers(query):
                raise Refused(codes.unknown("no such query is registered, or it has lapsed"))
        if query.order is not None and query.order.limit > self._max_limit:
            why = f"limit is {query.order.limit:,}, and may be {self._max_limit:,}"
            raise Refused(codes.bad_request(why))
        return query, begun

    async def _register(self, member: Member, query: Query) -> Registered:
        view = member.follower.view
        try:
            found = await self.store.register(
                view,
                query.id,
                query.text,
                member.subscription,
                self.ttl_ms,
                True,
                query_limits(self._limits, query),
            )
        except LimitExceeded as error:
            raise Refused(codes.limited(error.message.partition(": ")[2])) from None
        except KeyError:
            raise Refused(codes.unknown(f"there is no view {view}")) from None
        except BadQuery as error:
            raise Refused(codes.bad_request(str(error))) from None
        if member.ours and self._announce is not None:
            self._spawn(self._tell(Command("subscribe", view, member.subscription, query.text)))
        return found

    def _hold(self, member: Member, state: QueryState, query: Query) -> None:
        """Begin to hold the channel's changes; the state is read after this.

        Raises StaleRead when the store answered on another history than the log is followed on: there the
        query's number may be another query's.
        """
        follower = member.follower
        if (state.epoch, state.history_id) != (follower.epoch, follower.history_id):
            raise StaleRead
        follower.members.add(member)
        channel = follower.channel(state.number, query)
        joining = Joining(follower.epoch, follower.seq, limit=self._hold_bytes)
        if member.pace is not None or query.order is not None:
            channel.keep(member, joining, self._max_materialized_rows)
        else:
            channel.hold(member, joining)

    async def _recover(self, wish: Wish, member: Member, query: Query, start: Start) -> bool:
        """Give exactly what was missed, if that can be had."""
        if wish.subscription and wish.position is not None and wish.position.seq == 0:
            return False  # it left while it was waiting: it never had a state
        if member.channel is not None and member in member.channel.keepers:
            if wish.position is None or not await materialized_query.recover(
                self.store, member, wish.position, self._max_materialized_rows
            ):
                return False
            self.stats.joins["recovered"] += 1
            return self._say_fresh(member)
        build = member.follower.build
        found = await store_reads.missed(
            self.store,
            build,
            query,
            start,
            rows=wish.position is None,
            filtered=wish.held.has_row_filter(build.view),
            replay=self._replay,
        )
        if found is None or member.joining is None or member.lost():
            return False
        held = member.joining.settle(found.epoch, found.seq)
        if held is None:
            return False
        told = found._replace(pubs=field_projection.some(member.fields, found.pubs))
        member.tell(told)
        member.sent(told.size)
        self._live(member, held, "recovered")
        return self._say_fresh(member)

    def _say_fresh(self, member: Member) -> bool:
        """Tell a member that resumed how fresh the view is, which no state told it."""
        if member.follower.stale_after is not None:
            member.sink.write(member.sink.outlet().notice(member.follower.freshness()))
        return True

    async def _state(self, member: Member) -> tuple[Snapshot, Sequence[Pub]]:
        """Read the state until it is not older than the hold. Raises StaleRead."""
        channel, joining = member.channel, member.joining
        if channel is not None and member in channel.keepers:
            return await materialized_query.state(self.store, member, self._max_materialized_rows), ()
        while channel is not None and joining is not None and not member.lost():
            snapshot = await store_reads.shared(self.store, member.follower.build, channel)
            held = None if member.lost() else joining.settle(snapshot.epoch, snapshot.seq)
            if held is not None:
                return snapshot, held
            if snapshot.epoch != joining.epoch:
                break
        raise StaleRead

    def _live(self, member: Member, held: Sequence[Pub], how: str) -> None:
        """Deliver what was held and go live; no await stands between the answer and this."""
        self.stats.joins[how] += 1
        channel = member.channel
        if channel is not None and member in channel.keepers:
            paced = channel.enter(member)
            if paced is not None:
                paced.start()
            return
        member.follower.send(member, held)
        member.follower.settled(member)

    # --- two steps --------------------------------------------------------------------------------------

    def _wait(self, wish: Wish, member: Member) -> bool:
        """Accept a subscription whose state comes once it is begun."""
        if member.lost() or member.begun:
            return False
        self.stats.joins["waiting"] += 1
        member.waiting = True
        member.tell(Waiting(member.follower.epoch, wish.position is not None))
        return True

    def begun(self, follower: Follower, subscription: str) -> None:
        """Take note that a subscription was begun; if it waits here, its state is read and sent."""
        for member in follower.members.of(subscription):
            member.begun = True
            if member.waiting:
                member.waiting = False
                self._spawn(self._begin(member))

    async def _begin(self, member: Member) -> None:
        follower = member.follower
        try:
            found = await self.store.subscription(follower.view, member.subscription)
            if found is None:
                raise StaleRead
            state = await self.store.query_state(follower.view, found.query_id)
            row = await self.store.query_text(follower.view, found.query_id)
            if state is None or row is None:
                raise StaleRead
            query = Query.load(follower.view, row.text)
            await self._turn(member, query)
            if member.lost():
                raise StaleRead
            self._hold(member, state, query)
            snapshot, held = await self._state(member)
        except Exception as error:
            if not isinstance(error, (StaleRead, Refused)):
                log.warning("view %s: a begun subscription cannot be served (%s)", follower.view, error)
            # It is told to subscribe again, and gets its state, or why there is none, in the reply.
            if not member.lost() and member.told:
                follower.release(member, codes.INSUFFICIENT)
        else:
            chosen = snapshot.of(member.fields)
            member.sink.begun(chosen, follower.stale)
            member.sent(chosen.size)
            self._live(member, held, "snapshot")
        finally:
            member.end_turn()

    # --- history ----------------------------------------------------------------------------------------

    async def history(
        self, member: Member, since: Position | None, limit: int, *, reverse: bool = False
    ) -> tuple[str, int, list[Pub]]:
        """Read publications of a member's channel after a position, or before it. Raises Refused."""
        channel, follower = member.channel, member.follower
        if channel is None or channel.query.order is not None:  # the log does not know who is first
            raise Refused(codes.NOT_AVAILABLE)
        most = HISTORY_LIMIT if limit < 0 else min(limit, HISTORY_LIMIT)
        try:
            read = history.backwards if reverse else history.forwards
            return await read(self.store, follower.build, channel.query, since, most, member.fields)
        except StaleRead:
            raise Refused(codes.UNRECOVERABLE) from None
        except Refused:
            raise
        except Exception as error:
            log.warning("view %s: its history cannot be read (%s)", follower.view, error)
            raise Refused(codes.INTERNAL) from error

    # --- the views --------------------------------------------------------------------------------------

    @property
    def followers(self) -> dict[str, Follower]:
        """The views that are followed, by name."""
        return self._followers.all

    def stop_following(self, view: str) -> None:
        """Let go of a view that nobody needs."""
        self._followers.stop(view)

    async def close(self) -> None:
        """Stop everything; members are not told."""
        await self._followers.close()
        await cancelled(*self._tasks)

    # --- small ------------------------------------------------------------------------------------------

    def _failed(self, wish: Wish, error: Exception) -> Refused:
        self.stats.joins["refused"] += 1
        log.warning("view %r: a join failed (%s)", wish.asked.view[:200], error or type(error).__name__)
        return Refused(codes.INTERNAL)

    def _end(self, member: Member) -> None:
        # One that was made elsewhere may be held elsewhere, too.
        self._spawn(self._end_in_store(member.follower.view, member.subscription, tell=not member.ours))

    async def _end_in_store(self, view: str, subscription: str, *, tell: bool) -> None:
        try:
            await self.store.end(view, subscription, notify=tell)
        except Exception as error:
            log.warning("view %s: a subscription could not be ended and will lapse (%s)", view, error)
        else:
            await self._tell(Command("end", view, subscription))

    async def _tell(self, command: Command) -> None:
        if self._announce is not None:
            try:
                await self._announce(command)
            except DistributaryError as error:
                log.warning("a command was not announced; the registry has it all the same (%s)", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
