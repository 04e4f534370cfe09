"""One channel of one WebSocket connection: the hub's sink, and the replies and pushes it causes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distributary.auth import EVERYTHING, GrantSet
from distributary.auth.reservations import Reservation
from distributary.errors import BadQuery, DistributaryError, TokenExpired, TokenRefused
from distributary.model.field_mask import FieldMask
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery, parse_channel
from distributary.publisher.access_control import count_query, narrowed
from distributary.publisher.codec import codes
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.codes import Ending, Refusal, Refused
from distributary.publisher.codec.publication import Publication, encode_json
from distributary.publisher.hub.channel import projected
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn
from distributary.publisher.hub.subscription import (
    ChannelEncoder,
    Initial,
    Outcome,
    Recovered,
    SubscribeRequest,
    Subscription,
    Write,
)
from distributary.publisher.websocket.session_actions import JoinChannel, ReadHistory

if TYPE_CHECKING:
    from distributary.publisher.websocket.websocket_connection import Connection

PAGE_BYTES = 65_536
WAITING = b'{"op":"waiting"}'


class WebSocketEncoder:
    """Implements ``ChannelEncoder``: pushes of one channel name in one format, in one WebSocket frame."""

    def __init__(self, name: str, codec: Codec) -> None:
        self.key = codec.key + name
        self.live: dict[Subscription, Write] = {}
        self._codec = codec
        self._head = codec.push_head(name)

    def encode(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Encode a batch as one raw frame."""
        return self._codec.frame(self._codec.pushes(self._head, publications))

    def encode_notice(self, data: bytes) -> bytes:
        """Encode a push without a position as one raw frame."""
        return self._codec.frame(self._codec.notice(self._head, data))


class ChannelSink:
    """Implements ``Sink`` for a channel of a connection."""

    def __init__(self, connection: Connection, join: JoinChannel) -> None:
        self.connection = connection
        self.channel = join.command.channel
        self.write: Write = connection.write
        # Joins the channel; cancelled when the client leaves before that is done.
        self.task: asyncio.Task[None] | None = None
        self._codec = connection.session.codec
        self._join = join
        # Set once it has joined, until it ends.
        self._subscription: Subscription | None = None
        self._fields: FieldMask | None = None
        # The grants of the connection and, where it has a token of its own, of the channel.
        self._grants = EVERYTHING
        # The grants by which the subscription was last checked.
        self._checked_grants = EVERYTHING
        # The grants by which epochs are shown. They stay, so that positions stay valid when others change.
        self._position_grants = EVERYTHING
        # What the client is served in place of the query that it requested.
        self._served: ChannelQuery | None = None
        # What the query counts as, of its user's; None: not counted yet.
        self._reservations: list[Reservation] | None = None

    # --- the client's commands --------------------------------------------------------------------------

    async def join(self, hub: Hub) -> None:
        """Join the channel, and reply in any case."""
        try:
            await self.connection.auth.spend()
            await self._authorize(self._join.command.token)
            request = self._request()
            async with self.connection.join_slots:
                await self.connection.send_buffer.drained()
                self._subscription = await hub.join(request, self)
        except BadQuery as error:
            self._refuse(codes.bad_request(str(error)))
        except Refused as error:
            self._refuse(error.refusal)
        else:
            if self._grants.grants[0] is not self.connection.auth.grant:
                self.recheck_grants(hub)  # the connection's token was refreshed meanwhile

    def _request(self) -> SubscribeRequest:
        """Turn the command into a request. Raises BadQuery, Refused."""
        served = self._served = narrowed(parse_channel(self.channel), self._grants)
        self._checked_grants = self._grants
        self._position_grants = self._grants
        self._fields = served.fields
        return SubscribeRequest.of(self._join.command, served, self._grants, self._count)

    async def _count(self, query: Query) -> Reservation | None:
        """Count the query as its user's, once. Raises Refused (106)."""
        if self._reservations is None:
            limiter = self.connection.auth.access.limiter
            reservations = await count_query(limiter, self._grants.grants[0], query, self.connection.address)
            if self.connection.sinks.get(self.channel) is not self:
                limiter.reservations.release(reservations)
                raise Refused(codes.NOT_SUBSCRIBED)  # the client left it meanwhile
            self._reservations = reservations
        return self._reservations[0] if self._reservations else None

    def _refuse(self, refusal: Refusal) -> None:
        self._release()
        connection = self.connection
        if refusal.code in (codes.PERMISSION_DENIED.code, codes.TOKEN_EXPIRED.code):
            connection.auth.audit_refused("subscribe", self.channel, refusal.message)
        payload = connection.session.refuse(self._join.reply, refusal)
        if connection.sinks.get(self.channel) is self:
            del connection.sinks[self.channel]
        if payload is not None:
            connection.send(payload)

    async def history(self, hub: Hub, action: ReadHistory) -> None:
        """Read history and reply."""
        session = self.connection.session
        try:
            if self._subscription is None:
                raise Refused(codes.NOT_SUBSCRIBED)
            await self.connection.auth.spend()
            await self.connection.send_buffer.drained()
            view, since = self._subscription.follower.view, action.since
            if since is not None:
                since = self._position_grants.store_position(view, since)
            found = await hub.history(self._subscription, since, action.limit, reverse=action.reverse)
            body = session.codec.history(self._visible_epoch(found.epoch), found.seq, found.publications)
            payload = session.answer(action.reply, body)
        except Refused as error:
            payload = session.answer(action.reply, session.codec.error(error.refusal))
        if payload is not None:
            self.connection.send_state(payload)
            self.release_when_read(hub.budget.add(len(payload)))

    def leave(self, hub: Hub) -> None:
        """End the subscription: the client asked for it."""
        self._stop(hub, end=True)

    def detach(self, hub: Hub) -> None:
        """Leave the subscription to lapse: the connection is lost, and the client may come back."""
        self._stop(hub, end=False)

    def _stop(self, hub: Hub, *, end: bool) -> None:
        self._release()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            hub.leave(subscription, end=end)
        elif self.task is not None:
            self.task.cancel()

    # --- grants -----------------------------------------------------------------------------------------

    @property
    def ttl(self) -> int:
        """In how many seconds the channel's own token expires; 0 without one, or if it never does."""
        own = self._grants.grants[1:]
        return self.connection.auth.access.authenticator.seconds_left(own[0]) if own else 0

    async def refresh(self, token: str) -> Refusal | None:
        """Replace the channel's token; returns how it was refused, or None."""
        try:
            if not token:
                raise Refused(codes.denied("a token is needed"))
            await self._authorize(token)
        except Refused as error:
            if error.refusal == codes.TOKEN_EXPIRED:
                # The client subscribes again, with another token.
                self.revoke(TokenExpired("the channel's new token has expired, too"))
            return error.refusal
        return None

    def recheck_grants(self, hub: Hub) -> None:
        """End the subscription if it would be served something else by now.

        The client is told to subscribe again, without its position, or that it may not have the view.
        """
        subscription, served = self._subscription, self._served
        if subscription is None or served is None:
            return  # it is joining: ``join`` checks it afterwards
        self._grants = GrantSet((self.connection.auth.grant, *self._grants.grants[1:]))
        if self._grants.allows_same_rows(self._checked_grants):
            return
        self._checked_grants = self._grants
        try:
            now = narrowed(parse_channel(self.channel), self._grants)
        except (Refused, BadQuery):
            return self._give_up(hub, subscription, codes.NOT_ALLOWED)
        if served.query is not None:
            same = now.query_id == served.query_id
        else:
            channel = subscription.channel
            same = channel is not None and self._grants.covers(channel.query)
        if not same or now.fields != served.fields:
            self._give_up(hub, subscription, codes.ALLOWED_ROWS_CHANGED)

    def revoke(self, error: TokenRefused) -> None:
        """End the subscription: its token has expired or was revoked."""
        subscription = self._subscription
        if subscription is not None:
            expired = isinstance(error, TokenExpired)
            ending = codes.SUBSCRIPTION_EXPIRED if expired else codes.NOT_ALLOWED
            self._give_up(self.connection.hub, subscription, ending)

    def _give_up(self, hub: Hub, subscription: Subscription, ending: Ending) -> None:
        hub.leave(subscription, end=subscription.created_here)
        self.end(ending)

    async def _authorize(self, token: str) -> None:
        auth = self.connection.auth
        try:
            grants = await auth.grants(token, self.channel)
        except DistributaryError as error:
            raise codes.to_refused(error) from None
        if self.connection.sinks.get(self.channel) is not self:
            raise Refused(codes.NOT_SUBSCRIBED)  # the client left it meanwhile
        self._unregister()
        self._grants = grants
        for grant in grants.grants[1:]:
            auth.access.sessions.add(grant, self)

    def _release(self) -> None:
        """Release what was counted for this subscription; calling it again does no harm."""
        self._unregister()
        if self._reservations is not None:
            self.connection.auth.access.limiter.reservations.release(self._reservations)
            self._reservations = None

    def _unregister(self) -> None:
        for grant in self._grants.grants[1:]:
            self.connection.auth.access.sessions.remove(grant, self)

    def _visible_epoch(self, epoch: str) -> str:
        served = self._served
        return self._position_grants.visible_epoch(served.view, epoch) if served is not None else epoch

    # --- the hub ----------------------------------------------------------------------------------------

    def encoder(self) -> ChannelEncoder:
        """Frames have the channel's name in them, so there is one encoding for each name and format."""
        return projected(WebSocketEncoder(self.channel, self._codec), self._fields)

    def room(self) -> int:
        """All channels of a connection share its room."""
        return self.connection.send_buffer.room

    def release_when_read(self, turn: Turn) -> None:
        """The connection knows what its reader has taken."""
        self.connection.send_buffer.release_when_read(turn)

    def send_outcome(self, outcome: Outcome) -> None:
        """Reply to the subscribe."""
        if isinstance(outcome, Recovered):
            data = b'{"op":"resumed","tier":"%b"}' % outcome.tier.encode()
            body = self._codec.recovered(
                self._visible_epoch(outcome.epoch), outcome.seq, outcome.publications, data, ttl=self.ttl
            )
        elif isinstance(outcome, Initial):
            found = outcome.snapshot
            data = found.data(stale=outcome.stale)
            epoch, seq = self._visible_epoch(found.epoch), found.seq
            body = self._codec.subscribed(epoch, seq, data, recovering=outcome.recovering, ttl=self.ttl)
        else:
            # Offset 0: a client that leaves while it waits must not resume as if it had had the state.
            epoch = self._visible_epoch(outcome.epoch)
            body = self._codec.subscribed(epoch, 0, WAITING, recovering=outcome.recovering, ttl=self.ttl)
        payload = self.connection.session.answer(self._join.reply, body)
        if payload is not None:
            self.connection.send_state(payload)

    def send_snapshot(self, snapshot: Snapshot, stale: bool) -> None:
        """Send the state as publications without an offset, then that it is complete."""
        head = self._codec.push_head(self.channel)
        for page in snapshot.pages(stale=stale, size=PAGE_BYTES):
            self.connection.send_state(self._codec.notice(head, page))
        position = encode_json(f"{self._visible_epoch(snapshot.epoch)}:{snapshot.seq}")
        ready = (snapshot.seq, b'{"op":"ready","position":%b,"tier":"snapshot"}' % position)
        self.connection.send(self._codec.pushes(head, [ready]))

    def end(self, ending: Ending) -> None:
        """Tell the client that it is unsubscribed."""
        self._subscription = None
        self._release()
        connection = self.connection
        if connection.sinks.get(self.channel) is self:
            del connection.sinks[self.channel]
            connection.session.left(self.channel)
        connection.send(self._codec.unsubscribe(self.channel, ending))
