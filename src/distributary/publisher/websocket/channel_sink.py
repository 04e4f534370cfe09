"""One channel of one WebSocket connection: the hub's sink, and the answers it gives rise to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from distributary.auth import EVERYTHING, GrantSet
from distributary.auth.reservations import Reservation
from distributary.errors import BadQuery, DistributaryError, TokenExpired, TokenRefused
from distributary.model.field_mask import Fields
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery, parse_channel
from distributary.publisher.access_control import counted, narrowed
from distributary.publisher.codec import codes, websocket_frames
from distributary.publisher.codec.codes import Ending, Refusal, Refused
from distributary.publisher.hub.field_projection import projected
from distributary.publisher.hub.hub import Hub, Wish
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn
from distributary.publisher.hub.subscription import (
    Initial,
    Member,
    Outcome,
    Outlet,
    Recovered,
    WebSocketOutlet,
    Write,
)
from distributary.publisher.websocket.session_actions import History, Join

if TYPE_CHECKING:
    from distributary.publisher.websocket.websocket_connection import Connection

PAGE_BYTES = 65_536
WAITING = b'{"op":"waiting"}'


class WebSocketSink:
    """Implements ``Sink`` for a channel of a connection."""

    def __init__(self, connection: Connection, asked: Join) -> None:
        self.connection = connection
        self.channel = asked.ticket.channel
        self.write: Write = connection.write
        self._wire = connection.session.wire
        self.task: asyncio.Task[None] | None = None
        self._asked = asked
        self._member: Member | None = None
        self._fields: Fields | None = None
        self._held = EVERYTHING
        self._considered = self._positions = EVERYTHING
        self._served: ChannelQuery | None = None
        self._counted: list[Reservation] | None = None

    # --- what the client asked --------------------------------------------------------------------------

    async def join(self, hub: Hub) -> None:
        """Join the channel and answer, one way or the other."""
        asked = self._asked
        try:
            await self.connection.visitor.spend()
            await self._permit(asked.token)
            wish = self._wish(asked)
            async with self.connection.slots:
                await self.connection.outgoing.drained()
                self._member = await hub.join(wish, self)
        except BadQuery as error:
            self._refuse(codes.bad_request(str(error)))
        except Refused as error:
            self._refuse(error.refusal)
        else:
            if self._held.grants[0] is not self.connection.visitor.grant:
                self.reconsider(hub)  # there was a refresh meanwhile

    def _wish(self, asked: Join) -> Wish:
        """Make what the hub is asked for out of what the client asked for. Raises BadQuery, Refused."""
        served = self._served = narrowed(parse_channel(self.channel), self._held)
        self._considered = self._held
        self._positions = self._held  # however its rows may be allowed later: it is told of these
        self._fields = served.fields
        position, since = asked.position, asked.since
        if position is not None:
            position = self._positions.store_position(served.view, position)
        if isinstance(since, Position):
            since = self._positions.store_position(served.view, since)
        return Wish(
            served, asked.subscription, position, asked.reject, since, asked.pace, self._held, self._count
        )

    async def _count(self, query: Query) -> Reservation | None:
        """Count the query as its user's, once. Raises Refused (106)."""
        if self._counted is None:
            limiter = self.connection.visitor.door.limiter
            shares = await counted(limiter, self._held.grants[0], query, self.connection.address)
            if self.connection.sinks.get(self.channel) is not self:
                limiter.reservations.release(shares)
                raise Refused(codes.NOT_SUBSCRIBED)  # it was left meanwhile
            self._counted = shares
        return self._counted[0] if self._counted else None

    def _refuse(self, refusal: Refusal) -> None:
        self._free()
        connection = self.connection
        if refusal.code in (codes.PERMISSION_DENIED.code, codes.TOKEN_EXPIRED.code):
            connection.visitor.refused("subscribe", self.channel, refusal.message)
        payload = connection.session.refuse(self._asked.ticket, refusal)
        if connection.sinks.get(self.channel) is self:
            del connection.sinks[self.channel]
        if payload is not None:
            connection.send(payload)

    async def history(self, hub: Hub, asked: History) -> None:
        """Read history and answer."""
        session = self.connection.session
        try:
            if self._member is None:
                raise Refused(codes.NOT_SUBSCRIBED)
            await self.connection.visitor.spend()
            await self.connection.outgoing.drained()
            view, since = self._member.follower.view, asked.since
            if since is not None:
                since = self._positions.store_position(view, since)
            epoch, seq, pubs = await hub.history(self._member, since, asked.limit, reverse=asked.reverse)
            body = session.wire.history(self._epoch(epoch), seq, pubs)
            payload = session.answer(asked.ticket, body)
        except Refused as error:
            payload = session.answer(asked.ticket, session.wire.error(error.refusal))
        if payload is not None:
            self.connection.send_state(payload)
            self.carry(hub.states.add(len(payload)))

    def leave(self, hub: Hub) -> None:
        """End the subscription: the client asked for it."""
        self._stop(hub, end=True)

    def lose(self, hub: Hub) -> None:
        """Let go: the connection is lost, the client may come back."""
        self._stop(hub, end=False)

    def _stop(self, hub: Hub, *, end: bool) -> None:
        self._free()
        member, self._member = self._member, None
        if member is not None:
            hub.leave(member, end=end)
        elif self.task is not None:
            self.task.cancel()

    # --- permission -------------------------------------------------------------------------------------

    @property
    def ttl(self) -> int:
        """In how many seconds the channel's own token ends; 0 without one, or without an end."""
        own = self._held.grants[1:]
        return self.connection.visitor.door.gate.seconds_left(own[0]) if own else 0

    async def refresh(self, token: str) -> Refusal | None:
        """Go on by another token of the channel; says how it is refused, or None when it is not."""
        try:
            if not token:
                raise Refused(codes.denied("a token is needed"))
            await self._permit(token)
        except Refused as error:
            if error.refusal == codes.TOKEN_EXPIRED:
                self.expel(TokenExpired("the channel's new token is over, too"))  # it comes with another
            return error.refusal
        return None

    def reconsider(self, hub: Hub) -> None:
        """End the subscription if what it is served is not what it would be served now.

        The client is told to subscribe again, and its position is not taken then; or that the view is not
        allowed any more.
        """
        member, served = self._member, self._served
        if member is None or served is None:
            return  # it joins: looked at when it has joined
        self._held = GrantSet((self.connection.visitor.grant, *self._held.grants[1:]))
        if self._held.allows_same_rows(self._considered):
            return
        self._considered = self._held
        try:
            now = narrowed(parse_channel(self.channel), self._held)
        except (Refused, BadQuery):
            return self._give_up(hub, member, codes.NOT_ALLOWED)
        if served.query is not None:
            same = now.query_id == served.query_id
        else:
            same = member.channel is not None and self._held.covers(member.channel.query)
        if not same or now.fields != served.fields:
            self._give_up(hub, member, codes.ALLOWED_ROWS_CHANGED)

    def expel(self, error: TokenRefused) -> None:
        """End the subscription: the token that it came with is over."""
        member = self._member
        if member is not None:
            expired = isinstance(error, TokenExpired)
            ending = codes.SUBSCRIPTION_EXPIRED if expired else codes.NOT_ALLOWED
            self._give_up(self.connection.hub, member, ending)

    def _give_up(self, hub: Hub, member: Member, ending: Ending) -> None:
        hub.leave(member, end=member.ours)
        self.ended(ending)

    async def _permit(self, token: str) -> None:
        visitor = self.connection.visitor
        try:
            held = await visitor.held(token, self.channel)
        except DistributaryError as error:
            raise codes.to_refused(error) from None
        if self.connection.sinks.get(self.channel) is not self:
            raise Refused(codes.NOT_SUBSCRIBED)  # it was left meanwhile
        self._leave_roll()
        self._held = held
        for grant in held.grants[1:]:
            visitor.door.roll.enter(grant, self)

    def _free(self) -> None:
        """Give back what was counted for this subscription; more than once does no harm."""
        self._leave_roll()
        if self._counted is not None:
            self.connection.visitor.door.limiter.reservations.release(self._counted)
            self._counted = None

    def _leave_roll(self) -> None:
        for grant in self._held.grants[1:]:
            self.connection.visitor.door.roll.leave(grant, self)

    def _epoch(self, epoch: str) -> str:
        served = self._served
        return self._positions.visible_epoch(served.view, epoch) if served is not None else epoch

    # --- what the hub tells -----------------------------------------------------------------------------

    def outlet(self) -> Outlet:
        """Frames carry the channel's name, so there is one encoding for each name and format."""
        return projected(WebSocketOutlet(self.channel, self._wire), self._fields)

    def room(self) -> int:
        """All channels of a connection share its room."""
        return self.connection.outgoing.room

    def carry(self, turn: Turn) -> None:
        """The connection knows what its reader has taken."""
        self.connection.outgoing.carry(turn)

    def joined(self, outcome: Outcome) -> None:
        """Answer the subscribe."""
        if isinstance(outcome, Recovered):
            how = b'{"op":"resumed","tier":"%b"}' % outcome.tier.encode()
            epoch, seq = self._epoch(outcome.epoch), outcome.seq
            body = self._wire.recovered(epoch, seq, outcome.pubs, how, ttl=self.ttl)
        elif isinstance(outcome, Initial):
            found = outcome.snapshot
            data = found.data(stale=outcome.stale)
            epoch, seq = self._epoch(found.epoch), found.seq
            body = self._wire.subscribed(epoch, seq, data, recovering=outcome.recovering, ttl=self.ttl)
        else:
            # Offset 0: a client that leaves while it waits must not resume as if it had had the state.
            epoch = self._epoch(outcome.epoch)
            body = self._wire.subscribed(epoch, 0, WAITING, recovering=outcome.recovering, ttl=self.ttl)
        payload = self.connection.session.answer(self._asked.ticket, body)
        if payload is not None:
            self.connection.send_state(payload)

    def begun(self, snapshot: Snapshot, stale: bool) -> None:
        """Send the state as publications without an offset, then that it is whole."""
        head = self._wire.push_head(self.channel)
        for page in snapshot.pages(stale=stale, size=PAGE_BYTES):
            self.connection.send_state(self._wire.notice(head, page))
        position = websocket_frames.encode(f"{self._epoch(snapshot.epoch)}:{snapshot.seq}")
        ready = (snapshot.seq, b'{"op":"ready","position":%b,"tier":"snapshot"}' % position)
        self.connection.send(self._wire.pushes(head, [ready]))

    def ended(self, ending: Ending) -> None:
        """Tell the client that it is unsubscribed."""
        self._member = None
        self._free()
        connection = self.connection
        if connection.sinks.get(self.channel) is self:
            del connection.sinks[self.channel]
            connection.session.left(self.channel)
        connection.send(self._wire.unsubscribe(self.channel, ending))
