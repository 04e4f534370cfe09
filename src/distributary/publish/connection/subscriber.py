"""One channel of one WebSocket connection: the hub's sink, and the answers it gives rise to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from distributary.errors import BadQuery
from distributary.model.fields import Fields
from distributary.publish.connection.actions import History, Join
from distributary.publish.hub import names
from distributary.publish.hub.channel import (
    Initial,
    Member,
    Outcome,
    Outlet,
    Recovered,
    WebSocketOutlet,
    Write,
)
from distributary.publish.hub.fields import projected
from distributary.publish.hub.hub import Hub, Wish
from distributary.publish.hub.snapshot import Snapshot
from distributary.publish.wire import codes, frames
from distributary.publish.wire.codes import Ending, Refused

if TYPE_CHECKING:
    from distributary.publish.connection.connection import Connection

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

    # --- what the client asked --------------------------------------------------------------------------

    async def join(self, hub: Hub) -> None:
        """Join the channel and answer, one way or the other."""
        asked = self._asked
        try:
            query = names.parse(self.channel)
            self._fields = query.fields
            wish = Wish(
                query, asked.subscription, asked.position, asked.reject, since=asked.since, pace=asked.pace
            )
            async with self.connection.slots:
                await self.connection.drained()
                self._member = await hub.join(wish, self)
        except BadQuery as error:
            self._refuse(codes.bad_request(str(error)))
        except Refused as error:
            self._refuse(error.refusal)

    def _refuse(self, refusal: codes.Refusal) -> None:
        connection = self.connection
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
            await self.connection.drained()
            found = await hub.history(self._member, asked.since, asked.limit, reverse=asked.reverse)
            payload = session.answer(asked.ticket, session.wire.history(*found))
        except Refused as error:
            payload = session.answer(asked.ticket, session.wire.error(error.refusal))
        if payload is not None:
            self.connection.send_state(payload)

    def leave(self, hub: Hub) -> None:
        """End the subscription: the client asked for it."""
        self._stop(hub, end=True)

    def lose(self, hub: Hub) -> None:
        """Let go: the connection is lost, the client may come back."""
        self._stop(hub, end=False)

    def _stop(self, hub: Hub, *, end: bool) -> None:
        member, self._member = self._member, None
        if member is not None:
            hub.leave(member, end=end)
        elif self.task is not None:
            self.task.cancel()

    # --- what the hub tells -----------------------------------------------------------------------------

    def outlet(self) -> Outlet:
        """Frames carry the channel's name, so there is one encoding for each name and format."""
        return projected(WebSocketOutlet(self.channel, self._wire), self._fields)

    def room(self) -> int:
        """All channels of a connection share its room."""
        return self.connection.room()

    def joined(self, outcome: Outcome) -> None:
        """Answer the subscribe."""
        if isinstance(outcome, Recovered):
            how = b'{"op":"resumed","tier":"%b"}' % outcome.tier.encode()
            body = self._wire.recovered(outcome.epoch, outcome.seq, outcome.pubs, how)
        elif isinstance(outcome, Initial):
            found = outcome.snapshot
            data = found.data(stale=outcome.stale)
            body = self._wire.subscribed(found.epoch, found.seq, data, recovering=outcome.recovering)
        else:
            # Offset 0: a client that leaves while it waits must not resume as if it had had the state.
            body = self._wire.subscribed(outcome.epoch, 0, WAITING, recovering=outcome.recovering)
        payload = self.connection.session.answer(self._asked.ticket, body)
        if payload is not None:
            self.connection.send_state(payload)

    def begun(self, snapshot: Snapshot, stale: bool) -> None:
        """Send the state as publications without an offset, then that it is whole."""
        head = self._wire.push_head(self.channel)
        for page in snapshot.pages(stale=stale, size=PAGE_BYTES):
            self.connection.send_state(self._wire.notice(head, page))
        position = frames.encode(f"{snapshot.epoch}:{snapshot.seq}")
        ready = (snapshot.seq, b'{"op":"ready","position":%b,"tier":"snapshot"}' % position)
        self.connection.send(self._wire.pushes(head, [ready]))

    def ended(self, ending: Ending) -> None:
        """Tell the client that it is unsubscribed."""
        self._member = None
        connection = self.connection
        if connection.sinks.get(self.channel) is self:
            del connection.sinks[self.channel]
            connection.session.left(self.channel)
        connection.send(self._wire.unsubscribe(self.channel, ending))
