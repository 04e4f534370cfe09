"""One WebSocket connection: picows moves the bytes, ``Session`` is the protocol, the hub does the rest.

Frames are written here once, raw to the transport, so that a publication costs one write per connection. What
waits for a slow reader is in the transport's write buffer, which ``SendBuffer`` bounds.
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
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.codes import Ending, Refused
from distributary.publisher.websocket import rpc
from distributary.publisher.websocket.channel_sink import ChannelSink
from distributary.publisher.websocket.connection_auth import ConnectionAuth
from distributary.publisher.websocket.flow_control import CommandRate, SendBuffer
from distributary.publisher.websocket.session import Session
from distributary.publisher.websocket.session_actions import (
    Action,
    Authenticate,
    CallMethod,
    CloseConnection,
    JoinChannel,
    LeaveChannel,
    PendingReply,
    PublishMessage,
    ReadHistory,
    RefreshToken,
    Send,
)

if TYPE_CHECKING:
    from distributary.publisher.websocket.websocket_server import WebSocketServer

PARALLEL_JOINS = 8
CLOSE_WAIT = 1.0
DRAIN_POLL = 0.02
ABORT_WAIT = 5.0

TOO_BIG = Ending(1009, "message too big")
_PROTOCOL = Ending(1002, "extension not supported")


class Connection(WSListener):
    """One client. All methods run in the event loop; none blocks."""

    def __init__(
        self,
        server: WebSocketServer,
        codec: Codec,
        headers: Mapping[str, str],
        *,
        compressed: bool,
        client: str = "",
        address: str = "",
    ) -> None:
        # By what its connections are counted, and the address that its user's limits are counted by.
        self._client = client
        self.address = address
        # Chooses the portion of connections that it is pinged with.
        self.number = server.stats.accepted
        self._server = server
        self.hub, self.stats = server.hub, server.stats
        settings = self.settings = server.settings
        self.auth = ConnectionAuth(self, server.access, headers)
        self.session = Session(
            str(uuid.uuid4()),
            version=distributary.__version__,
            ping=max(1, math.ceil(settings.ping_interval)),
            max_channels=settings.max_channels,
            codec=codec,
            rate=CommandRate(settings.max_command_rate, settings.max_command_rate + settings.max_channels),
            authenticates=server.access.authenticator.on,
        )
        self._codec = codec
        self._compressed = compressed
        self._kind = WSMsgType.BINARY if codec.binary else WSMsgType.TEXT
        self._clock = asyncio.get_running_loop().time
        # The channels that are joined or joining, by name.
        self.sinks: dict[str, ChannelSink] = {}
        # How many channels may join at the same time.
        self.join_slots = asyncio.Semaphore(PARALLEL_JOINS)
        self._tasks: set[asyncio.Task[None]] = set()
        # The frames of a message that is not complete, their size, and whether it is compressed.
        self._parts: list[bytes] = []
        self._size = 0
        self._inflate = False
        # Nothing is read, since the user owes processor time.
        self._paused = False
        # A close frame was sent, or the socket is gone: nothing is written any more.
        self._ended = False

    # --- the socket -------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Start; a client that does not connect in time is closed."""
        self._transport = transport.underlying_transport
        self.send_buffer = SendBuffer(self._transport, self.settings.queue_bytes, self._too_slow)
        self.write = self._transport.write
        self._server.connections[self] = None
        self._server.open_sockets.add(self)
        self._server.stats.accepted += 1
        self._server.stats.connections += 1
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._server.settings.auth_timeout, self._check_connected)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take a frame; a message may come in several."""
        began = thread_time()
        self._take(transport, frame)
        self.auth.charge(thread_time() - began)

    def _take(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        self._count_closed_by_picows(transport)
        if kind == WSMsgType.CLOSE:
            if not self._ended:
                self.write(websocket_frames.close_frame(Ending(1000, "")))
            self._release()
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
        """Release everything; the subscriptions lapse unless the client reconnects."""
        self._count_closed_by_picows(transport)
        self._release()
        self.send_buffer.release()
        self._server.open_sockets.discard(self)
        self._server.tally.end(self._client)

    def _count_closed_by_picows(self, transport: WSTransport) -> None:
        """Count connections that picows closes by itself: above all for a frame that is too big."""
        closing = transport.close_handshake
        if not self._ended and closing is not None and closing.sent is not None:
            code = cast(SupportsInt, closing.sent.code)  # an IntEnum, unlike in the stubs
            self._server.stats.closed(int(code))
            self._release()

    def pause_reading(self) -> None:
        """Stop reading until the user owes no processor time; what the client sends waits with it."""
        if self._paused or self._ended:
            return
        self._paused = True
        self._transport.pause_reading()
        self._spawn(self._resume_reading())

    async def _resume_reading(self) -> None:
        await self.auth.wait_until_paid()
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Note that more waits than is allowed."""
        if not self._ended:
            self.send_buffer.paused()

    def resume_writing(self) -> None:
        """Note that what waited has gone out."""
        self.send_buffer.resumed()

    # --- writing ----------------------------------------------------------------------------------------

    def send(self, payload: bytes) -> None:
        """Send one message."""
        if not self._ended:
            self.write(self._codec.frame(payload))

    def send_state(self, payload: bytes) -> None:
        """Send an initial state: it may be larger than what else may wait, and does not count as slowness."""
        if not self._ended:
            self.send_buffer.allow(len(payload))
            self.write(self._codec.frame(payload))

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
            elif isinstance(action, JoinChannel):
                sink = self.sinks[action.reply.channel] = ChannelSink(self, action)
                sink.task = self._spawn(sink.join(self._server.hub))
            elif isinstance(action, LeaveChannel):
                self.sinks.pop(action.channel).leave(self._server.hub)
            elif isinstance(action, ReadHistory):
                sink = self.sinks[action.reply.channel]
                self._spawn(sink.history(self._server.hub, action))
            elif isinstance(action, Authenticate):
                self._spawn(self._authenticate(action))
            elif isinstance(action, RefreshToken):
                self._spawn(self._refresh(action))
            elif isinstance(action, PublishMessage):
                self._spawn(self._publish(action))
            elif isinstance(action, CallMethod):
                self._spawn(self._call(action))
            else:
                assert isinstance(action, CloseConnection)
                self._flush(out)
                return self.end(action.ending)
        self._flush(out)

    def _flush(self, out: list[bytes]) -> None:
        if out:
            self.send(self._codec.join(out))

    async def _authenticate(self, action: Authenticate) -> None:
        self._do(await self.auth.authenticate(action))

    async def _refresh(self, action: RefreshToken) -> None:
        sink = self.sinks.get(action.reply.channel)
        if not action.reply.channel:
            refusal = await self.auth.refresh(action)
            ttl = self.auth.access.authenticator.seconds_left(self.auth.grant)
        elif sink is not None:
            refusal = await sink.refresh(action.token)
            ttl = sink.ttl
        else:
            refusal, ttl = codes.NOT_SUBSCRIBED, 0
        if isinstance(refusal, Ending):
            return self.end(refusal)
        if refusal is not None:
            return self._answer(action.reply, self._codec.error(refusal))
        payload = self.session.refreshed(action.reply, ttl)
        if payload is not None:
            self.send(payload)
        for one in list(self.sinks.values()):
            one.recheck_grants(self._server.hub)

    async def _publish(self, action: PublishMessage) -> None:
        publisher, stats = self._server.client_publisher, self._server.stats
        try:
            if publisher is None:
                raise Refused(codes.NOT_AVAILABLE)
            await self.auth.spend(len(action.data))
            await publisher.publish(action.reply.channel, action.data, self.auth.grant)
        except Refused as error:
            stats.publishes["refused"] += 1
            if error.refusal.code == codes.PERMISSION_DENIED.code:
                self.auth.audit_refused("publish", action.reply.channel, error.refusal.message)
            return self._answer(action.reply, self._codec.error(error.refusal))
        stats.publishes["written"] += 1
        self._answer(action.reply, self._codec.published())

    async def _call(self, action: CallMethod) -> None:
        try:
            await self.auth.spend(len(action.data))
            grants = GrantSet((self.auth.grant,))
            found = await rpc.call(self._server.hub.store, action.method, action.data, grants)
            body = self._codec.called(found)
        except Refused as error:
            body = self._codec.error(error.refusal)
        self._answer(action.reply, body)

    def _answer(self, reply: PendingReply, body: bytes) -> None:
        payload = self.session.answer(reply, body)
        if payload is not None:
            self.send(payload)

    def ping(self) -> None:
        """Send a ping, or close when the last was not answered."""
        self.send_buffer.check()
        if self.session.connected and not self._ended:
            self._server.stats.pings += 1
            self._do([self.session.ping()])

    def _check_connected(self) -> None:
        if not self.session.connected:
            self.end(codes.STALE)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        with self.auth.metered():
            task = measured_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the end ----------------------------------------------------------------------------------------

    def end(self, ending: Ending) -> None:
        """Close with a code. The client has a moment to reply, then the socket is closed."""
        if self._ended:
            return
        self._server.stats.closed(ending.code)
        self._release()
        self.write(websocket_frames.close_frame(ending))
        loop = asyncio.get_running_loop()
        loop.call_later(CLOSE_WAIT, self._transport.close)
        loop.call_later(ABORT_WAIT, self._transport.abort)

    def _release(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._deadline.cancel()
        self.send_buffer.stop()
        self.session.end()
        self.auth.leave()
        self._server.connections.pop(self, None)
        self._server.stats.connections -= 1
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.detach(self._server.hub)
        for task in self._tasks:
            task.cancel()
