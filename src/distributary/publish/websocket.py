"""WebSocket connections: picows moves the bytes, ``Session`` knows the protocol, the hub the rest.

Frames are made here once and written raw to the transport, so that a publication costs one write a
connection. What waits for a slow reader is bounded by the transport's write buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import uuid
from collections.abc import Sequence
from http import HTTPStatus

from picows import (
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_create_server,
)

import distributary
from distributary.config.sections import Publisher
from distributary.errors import PortTaken
from distributary.publish import codes, frames
from distributary.publish.codes import Ending
from distributary.publish.hub import Hub
from distributary.publish.origins import allowed
from distributary.publish.session import Action, Close, History, Join, Leave, Send, Session
from distributary.publish.stats import Stats
from distributary.publish.subscriber import WebSocketSink

PATH = "/connection/websocket"
PARALLEL_JOINS = 8
CLOSE_WAIT = 1.0
DRAIN_POLL = 0.02
ABORT_WAIT = 5.0
SLICES = 8
"""Pings go out in that many portions of an interval, so that they do not come in one burst."""

_TOO_BIG = Ending(1009, "message too big")
_PROTOCOL = Ending(1002, "extensions are not spoken")


class Connection(WSListener):
    """One client. All methods run in the event loop; none blocks."""

    def __init__(self, server: WebSocketServer) -> None:
        self.number = server.stats.accepted
        self._server = server
        settings = server.settings
        self.session = Session(
            str(uuid.uuid4()),
            version=distributary.__version__,
            ping=max(1, math.ceil(settings.ping)),
            max_channels=settings.max_channels,
        )
        self.sinks: dict[str, WebSocketSink] = {}
        self.slots = asyncio.Semaphore(PARALLEL_JOINS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._parts: list[bytes] = []
        self._size = 0
        self._allowed = settings.queue_bytes
        self._ended = False

    # --- the socket -------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Begin; whoever does not speak in time is closed."""
        self._transport = transport.underlying_transport
        self._transport.set_write_buffer_limits(high=self._allowed)
        self.write = self._transport.write
        self._server.connections[self] = None
        self._server.lingering.add(self)
        self._server.stats.accepted += 1
        self._server.stats.connections += 1
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._server.settings.auth_timeout, self._check_connected)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take a frame; a message may come in several."""
        kind = frame.msg_type
        if kind == WSMsgType.CLOSE:
            if not self._ended:
                self.write(frames.close_frame(Ending(1000, "")))
            self._forget()
            self._transport.close()
            return
        if self._ended or kind in (WSMsgType.PING, WSMsgType.PONG):
            return
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            return self.end(_PROTOCOL)
        if kind == WSMsgType.BINARY or (kind == WSMsgType.CONTINUATION) != bool(self._parts):
            return self.end(codes.BAD_FRAME)
        payload = frame.get_payload_as_bytes()
        if not frame.fin or self._parts:
            self._size += len(payload)
            self._parts.append(payload)
            if self._size > self._server.settings.max_frame or len(self._parts) > 1024:
                return self.end(_TOO_BIG)
            if not frame.fin:
                return None
            payload = b"".join(self._parts)
            self._parts, self._size = [], 0
        self._do(self.session.receive(payload))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Forget everything; the subscriptions lapse unless the client comes back."""
        self._forget()
        self._server.lingering.discard(self)

    def pause_writing(self) -> None:
        """Note that more waits than is allowed. The writer may be in the middle of a fan-out: close later."""
        asyncio.get_running_loop().call_soon(self._check_slow)

    def resume_writing(self) -> None:
        """Note that what waited has gone out."""
        self._reset_allowance()

    # --- writing ----------------------------------------------------------------------------------------

    def send(self, payload: bytes) -> None:
        """Send one message."""
        if not self._ended:
            self.write(frames.text_frame(payload))

    def send_state(self, payload: bytes) -> None:
        """Send an initial state: it may be larger than what else may wait, and does not count as slowness."""
        if not self._ended:
            self._allowed += len(payload)
            self._transport.set_write_buffer_limits(high=self._allowed)
            self.write(frames.text_frame(payload))

    async def drained(self) -> None:
        """Wait until no more than the ordinary waits to go out."""
        while self._transport.get_write_buffer_size() > self._server.settings.queue_bytes:
            await asyncio.sleep(DRAIN_POLL)  # there is no callback below the raised limit

    def _reset_allowance(self) -> None:
        ordinary = self._server.settings.queue_bytes
        if self._allowed != ordinary and self._transport.get_write_buffer_size() <= ordinary:
            self._allowed = ordinary
            self._transport.set_write_buffer_limits(high=ordinary)

    def _check_slow(self) -> None:
        if not self._ended and self._transport.get_write_buffer_size() > self._allowed:
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
            else:
                assert isinstance(action, Close)
                self._flush(out)
                return self.end(action.ending)
        self._flush(out)

    def _flush(self, out: list[bytes]) -> None:
        if out:
            self.send(b"\n".join(out))

    def ping(self) -> None:
        """Send a ping, or close when the last was not answered."""
        self._reset_allowance()
        if self.session.connected and not self._ended:
            self._do([self.session.ping()])

    def _check_connected(self) -> None:
        if not self.session.connected:
            self.end(codes.STALE)

    def _spawn(self, work: asyncio._CoroutineLike[None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
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
        self.write(frames.close_frame(ending))
        loop = asyncio.get_running_loop()
        loop.call_later(CLOSE_WAIT, self._transport.close)
        loop.call_later(ABORT_WAIT, self._transport.abort)

    def _forget(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._deadline.cancel()
        self.session.end()
        self._server.connections.pop(self, None)
        self._server.stats.connections -= 1
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.lose(self._server.hub)
        for task in self._tasks:
            task.cancel()


class WebSocketServer:
    """The listening socket and all connections."""

    def __init__(self, hub: Hub, settings: Publisher, stats: Stats) -> None:
        self.hub = hub
        self.settings = settings
        self.stats = stats
        self.connections: dict[Connection, None] = {}
        self.lingering: set[Connection] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self, *, port: int | None = None, share: bool = False) -> None:
        """Listen. Raises PortTaken."""
        wanted = self.settings.port if port is None else port
        try:
            self._server = await ws_create_server(
                self._accept,
                self.settings.host,
                wanted,
                max_frame_size=self.settings.max_frame,
                websocket_handshake_timeout=self.settings.auth_timeout,
                logger_name="quiet",
                reuse_port=share or None,
                backlog=1024,
            )
        except OSError as error:
            raise port_taken(self.settings.host, wanted, "publisher.port", error) from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def run(self) -> None:
        """Ping the connections, a portion at a time."""
        slice_ = 0
        while True:
            await asyncio.sleep(self.settings.ping / SLICES)
            slice_ = (slice_ + 1) % SLICES
            for connection in [c for c in self.connections if c.number % SLICES == slice_]:
                connection.ping()

    async def stop(self) -> None:
        """Close the socket and tell every client to come back."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.end(codes.SHUTDOWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WAIT):
                while self.lingering:
                    await asyncio.sleep(DRAIN_POLL)

    def _accept(self, request: WSUpgradeRequest) -> Connection | WSUpgradeResponseWithListener:
        headers = request.headers
        if request.path.split(b"?", 1)[0].decode(errors="replace") != PATH:
            return _refuse(HTTPStatus.NOT_FOUND, f"the WebSocket is at {PATH}")
        if not allowed(headers.get("Origin"), headers.get("Host", ""), self.settings.origins):
            self.stats.refused_origins += 1
            return _refuse(HTTPStatus.FORBIDDEN, "this origin may not connect; name it in publisher.origins")
        offered = [
            name.strip() for name in headers.get("Sec-WebSocket-Protocol", "").split(",") if name.strip()
        ]
        if "centrifuge-json" in offered:
            answer = WSUpgradeResponse.create_101_response({"Sec-WebSocket-Protocol": "centrifuge-json"})
            return WSUpgradeResponseWithListener(answer, Connection(self))
        if "centrifuge-protobuf" in offered:
            return _refuse(HTTPStatus.BAD_REQUEST, "this publisher speaks JSON, not Protobuf")
        return Connection(self)


def _refuse(status: HTTPStatus, why: str) -> WSUpgradeResponseWithListener:
    return WSUpgradeResponseWithListener(
        WSUpgradeResponse.create_error_response(status, f"{why}\n".encode()), None
    )


def port_taken(host: str, port: int, setting: str, error: OSError) -> PortTaken:
    """Say which address could not be had, and which setting names it."""
    why = error.strerror or str(error)
    return PortTaken(
        f"cannot listen on {host}:{port}: {why}", hint=f"Free it, or choose another with {setting}"
    )
