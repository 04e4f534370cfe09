"""One WebSocket connection: picows moves the bytes, ``Session`` knows the protocol, the hub the rest.

Frames are made here once and written raw to the transport, so that a publication costs one write a
connection. What waits for a slow reader is in the transport's write buffer, which ``Outgoing`` bounds.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from time import thread_time
from typing import TYPE_CHECKING, Any, SupportsInt, cast

from picows import WSFrame, WSListener, WSMsgType, WSTransport

import distributary
from distributary.auth import GrantSet
from distributary.auth.metering import measured_task
from distributary.publisher.codec import codes, websocket_frames
from distributary.publisher.codec.codec import Wire
from distributary.publisher.codec.codes import Ending, Refused
from distributary.publisher.websocket import rpc
from distributary.publisher.websocket.channel_sink import WebSocketSink
from distributary.publisher.websocket.connection_auth import Visitor
from distributary.publisher.websocket.flow_control import Outgoing, Rate
from distributary.publisher.websocket.session import Session
from distributary.publisher.websocket.session_actions import (
    Action,
    Admit,
    Call,
    Close,
    History,
    Join,
    Leave,
    Publish,
    Refresh,
    Send,
    Ticket,
)

if TYPE_CHECKING:
    from distributary.publisher.websocket.websocket_server import WebSocketServer

PARALLEL_JOINS = 8
CLOSE_WAIT = 1.0
DRAIN_POLL = 0.02
ABORT_WAIT = 5.0

TOO_BIG = Ending(1009, "message too big")
_PROTOCOL = Ending(1002, "this extension is not spoken")


class Connection(WSListener):
    """One client. All methods run in the event loop; none blocks."""

    def __init__(
        self,
        server: WebSocketServer,
        wire: Wire,
        headers: Mapping[str, str],
        *,
        compressed: bool,
        client: str = "",
        address: str = "",
    ) -> None:
        self._client = client
        self.address = address
        self.number = server.stats.accepted
        self._server = server
        self.hub, self.stats = server.hub, server.stats
        settings = self.settings = server.settings
        self.visitor = Visitor(self, server.door, headers)
        self.session = Session(
            str(uuid.uuid4()),
            version=distributary.__version__,
            ping=max(1, math.ceil(settings.ping_interval)),
            max_channels=settings.max_channels,
            wire=wire,
            rate=Rate(settings.max_command_rate, settings.max_command_rate + settings.max_channels),
            asks=server.door.gate.on,
        )
        self._wire = wire
        self._compressed = compressed
        self._kind = WSMsgType.BINARY if wire.binary else WSMsgType.TEXT
        self._clock = asyncio.get_running_loop().time
        self.sinks: dict[str, WebSocketSink] = {}
        self.slots = asyncio.Semaphore(PARALLEL_JOINS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._parts: list[bytes] = []
        self._size = 0
        self._inflate = False
        self._paused = False
        self._ended = False

    # --- the socket -------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Begin; whoever does not speak in time is closed."""
        self._transport = transport.underlying_transport
        self.outgoing = Outgoing(self._transport, self.settings.queue_bytes, self._too_slow)
        self.write = self._transport.write
        self._server.connections[self] = None
        self._server.lingering.add(self)
        self._server.stats.accepted += 1
        self._server.stats.connections += 1
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._server.settings.auth_timeout, self._check_connected)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take a frame; a message may come in several."""
        began = thread_time()
        self._take(transport, frame)
        self.visitor.charge(thread_time() - began)

    def _take(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        self._note_refused(transport)
        if kind == WSMsgType.CLOSE:
            if not self._ended:
                self.write(websocket_frames.close_frame(Ending(1000, "")))
            self._forget()
            self._transport.close()
            return
        if self._ended or kind in (WSMsgType.PING, WSMsgType.PONG):
            return
        if frame.rsv2 or frame.rsv3 or (frame.rsv1 and (not self._compressed or self._parts)):
            return self.end(_PROTOCOL)
        if kind != (WSMsgType.CONTINUATION if self._parts else self._kind):
            return self.end(codes.BAD_FRAME)
        if not self._parts:
            self._inflate = frame.rsv1
        payload = frame.get_payload_as_bytes()
        if not frame.fin or self._parts:
            self._size += len(payload)
            self._parts.append(payload)
            if self._size > self._server.settings.max_frame or len(self._parts) > 1024:
                return self.end(TOO_BIG)
            if not frame.fin:
                return None
            payload = b"".join(self._parts)
            self._parts, self._size = [], 0
        if self._inflate:
            try:
                payload = websocket_frames.inflate(payload, self._server.settings.max_frame)
            except websocket_frames.TooBig:
                return self.end(TOO_BIG)
            except ValueError:
                return self.end(codes.BAD_FRAME)
        self._do(self.session.receive(payload, self._clock()))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Forget everything; the subscriptions lapse unless the client comes back."""
        self._note_refused(transport)
        self._forget()
        self.outgoing.release()
        self._server.lingering.discard(self)
        self._server.tally.end(self._client)

    def _note_refused(self, transport: WSTransport) -> None:
        """Count what picows closes by itself: above all a frame that is too big, which may still come."""
        closing = transport.close_handshake
        if not self._ended and closing is not None and closing.sent is not None:
            code = cast(SupportsInt, closing.sent.code)  # an IntEnum; the stubs do not say so
            self._server.stats.closed(int(code))
            self._forget()

    def pause_reading(self) -> None:
        """Read nothing until the user owes no processor time; what it sends waits with it."""
        if self._paused or self._ended:
            return
        self._paused = True
        self._transport.pause_reading()
        self._spawn(self._resume_reading())

    async def _resume_reading(self) -> None:
        await self.visitor.settle()
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Note that more waits than is allowed."""
        if not self._ended:
            self.outgoing.paused()

    def resume_writing(self) -> None:
        """Note that what waited has gone out."""
        self.outgoing.resumed()

    # --- writing ----------------------------------------------------------------------------------------

    def send(self, payload: bytes) -> None:
        """Send one message."""
        if not self._ended:
            self.write(self._wire.frame(payload))

    def send_state(self, payload: bytes) -> None:
        """Send an initial state: it may be larger than what else may wait, and does not count as slowness."""
        if not self._ended:
            self.outgoing.allow(len(payload))
            self.write(self._wire.frame(payload))

    def _too_slow(self) -> None:
        if not self._ended:
            self._server.stats.slow += 1
            self.end(codes.SLOW)

    # --- the protocol -----------------------------------------------------------------------------------

    def _do(self, actions: Sequence[Action]) -> None:
        out: list[bytes] = []
        for action in actions:
            if isinstance(action, Send):
                out.append(action.payload)
            elif isinstance(action, Join):
                sink = self.sinks[action.ticket.channel] = WebSocketSink(self, action)
                sink.task = self._spawn(sink.join(self._server.hub))
            elif isinstance(action, Leave):
                self.sinks.pop(action.channel).leave(self._server.hub)
            elif isinstance(action, History):
                sink = self.sinks[action.ticket.channel]
                self._spawn(sink.history(self._server.hub, action))
            elif isinstance(action, Admit):
                self._spawn(self._admit(action))
            elif isinstance(action, Refresh):
                self._spawn(self._refresh(action))
            elif isinstance(action, Publish):
                self._spawn(self._publish(action))
            elif isinstance(action, Call):
                self._spawn(self._call(action))
            else:
                assert isinstance(action, Close)
                self._flush(out)
                return self.end(action.ending)
        self._flush(out)

    def _flush(self, out: list[bytes]) -> None:
        if out:
            self.send(self._wire.join(out))

    async def _admit(self, asked: Admit) -> None:
        self._do(await self.visitor.admit(asked))

    async def _refresh(self, asked: Refresh) -> None:
        sink = self.sinks.get(asked.ticket.channel)
        if not asked.ticket.channel:
            refusal = await self.visitor.refresh(asked)
            ttl = self.visitor.door.gate.seconds_left(self.visitor.grant)
        elif sink is not None:
            refusal = await sink.refresh(asked.token)
            ttl = sink.ttl
        else:
            refusal, ttl = codes.NOT_SUBSCRIBED, 0
        if isinstance(refusal, Ending):
            return self.end(refusal)
        if refusal is not None:
            return self._answer(asked.ticket, self._wire.error(refusal))
        payload = self.session.refreshed(asked.ticket, ttl)
        if payload is not None:
            self.send(payload)
        for one in list(self.sinks.values()):
            one.reconsider(self._server.hub)

    async def _publish(self, asked: Publish) -> None:
        inlet, stats = self._server.inlet, self._server.stats
        try:
            if inlet is None:
                raise Refused(codes.NOT_AVAILABLE)
            await self.visitor.spend(len(asked.data))
            await inlet.publish(asked.ticket.channel, asked.data, self.visitor.grant)
        except Refused as error:
            stats.publishes["refused"] += 1
            if error.refusal.code == codes.PERMISSION_DENIED.code:
                self.visitor.refused("publish", asked.ticket.channel, error.refusal.message)
            return self._answer(asked.ticket, self._wire.error(error.refusal))
        stats.publishes["written"] += 1
        self._answer(asked.ticket, self._wire.published())

    async def _call(self, asked: Call) -> None:
        try:
            await self.visitor.spend(len(asked.data))
            held = GrantSet((self.visitor.grant,))
            found = await rpc.call(self._server.hub.store, asked.method, asked.data, held)
            body = self._wire.called(found)
        except Refused as error:
            body = self._wire.error(error.refusal)
        self._answer(asked.ticket, body)

    def _answer(self, ticket: Ticket, body: bytes) -> None:
        payload = self.session.answer(ticket, body)
        if payload is not None:
            self.send(payload)

    def ping(self) -> None:
        """Send a ping, or close when the last was not answered."""
        self.outgoing.check()
        if self.session.connected and not self._ended:
            self._server.stats.pings += 1
            self._do([self.session.ping()])

    def _check_connected(self) -> None:
        if not self.session.connected:
            self.end(codes.STALE)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        with self.visitor.metered():
            task = measured_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the end ----------------------------------------------------------------------------------------

    def end(self, ending: Ending) -> None:
        """Close with a code. The client is given a moment to answer, then the socket goes."""
        if self._ended:
            return
        self._server.stats.closed(ending.code)
        self._forget()
        self.write(websocket_frames.close_frame(ending))
        loop = asyncio.get_running_loop()
        loop.call_later(CLOSE_WAIT, self._transport.close)
        loop.call_later(ABORT_WAIT, self._transport.abort)

    def _forget(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._deadline.cancel()
        self.outgoing.stop()
        self.session.end()
        self.visitor.leave()
        self._server.connections.pop(self, None)
        self._server.stats.connections -= 1
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.lose(self._server.hub)
        for task in self._tasks:
            task.cancel()
