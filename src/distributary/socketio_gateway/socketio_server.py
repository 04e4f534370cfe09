"""The socket.io gateway's server: socket.io on one side, publishers on the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import socketio
from aiohttp import hdrs, web
from multidict import CIMultiDict

from distributary.auth.client_security import Trust
from distributary.config.server_sections import Publisher, Socketio
from distributary.errors import HostRefused, OriginRefused
from distributary.httpd.certificates import Certificates
from distributary.httpd.cors import OriginPolicy
from distributary.httpd.listener import Listener
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending
from distributary.socketio_gateway.client_session import FIRST_REPLY, STALL, GatewayClient
from distributary.socketio_gateway.publisher_session import PublisherSession
from distributary.socketio_gateway.socketio_transport import ExactPacket, SendQueue

log = logging.getLogger(__name__)

PATH = "/socket.io/"
_STOP_SECONDS = 3.0
_CLOSE_SECONDS = 1.0
_NAMESPACE = "/"

# socketio and engineio log every packet that they cannot read, with a trace. Any client can send some.
_quiet = logging.getLogger("distributary.socketio_gateway.socketio")
_quiet.setLevel(logging.CRITICAL)


class SocketioGateway:
    """Serves socket.io clients, each through a connection of its own to one of ``publishers``.

    ``limits`` are the publishers': of frames, pings, what may wait for a slow client, and how long a
    connection may take to authenticate.
    """

    def __init__(
        self,
        settings: Socketio,
        limits: Publisher,
        publishers: Sequence[str],
        *,
        stall: float = STALL,
        trust: Trust | None = None,
    ) -> None:
        self._settings = settings
        self._pages = OriginPolicy("socketio", settings)
        self._limits = limits
        self._publishers = publishers
        self._stall = stall
        own = [] if settings.publishers else [limits.tls_certificate]
        self._trust = trust or Trust(pinned=filter(None, own))
        for url in publishers:
            self._trust.context(url)  # fail now for files that cannot be used, not for every client
        self._clients: dict[str, GatewayClient] = {}
        self._transports: dict[str, asyncio.BaseTransport] = {}
        self._http: aiohttp.ClientSession
        self._sio = socketio.AsyncServer(
            async_mode="aiohttp",
            serializer=ExactPacket,
            logger=_quiet,
            engineio_logger=_quiet,
            cors_allowed_origins=lambda origin, environ: True,  # checked by the middleware
            cors_credentials=False,
            max_http_buffer_size=limits.max_frame,
            ping_interval=limits.ping_interval,
        )
        self._sio.eio.create_queue = SendQueue
        self._sio.on("connect", self._connected)
        self._sio.on("disconnect", self._disconnected)
        self._sio.on("*", self._requested)
        app = web.Application(middlewares=[self._prepare])
        app.cleanup_ctx.append(self._running)
        app.router.add_get("/healthz", self._health)
        self._sio.attach(app)
        self._listener = Listener(
            app, settings, server="the socket.io gateway", setting="socketio.port", stop_seconds=_STOP_SECONDS
        )

    async def start(self, port: int | None = None) -> None:
        """Listen; a given port overrides the configured one (0: any free one). Raises PortTaken."""
        await self._listener.start(self._settings.port if port is None else port)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._listener.port

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        return f"{self._listener.url}{PATH}"

    @property
    def certificates(self) -> Certificates:
        """The certificates that it presents to clients."""
        return self._listener.certificates

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self._clients)

    async def stop(self) -> None:
        """Tell all clients to reconnect, and close."""
        await asyncio.gather(
            *(self._end(sid, codes.SHUTDOWN, may_reconnect=True) for sid in list(self._clients))
        )
        await self._sio.shutdown()
        await self._listener.stop()

    # --- HTTP -------------------------------------------------------------------------------------------

    @web.middleware
    async def _prepare(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Store the transport of an upgrade, to abort a client that does not read.

        Compression is not offered: it costs more than all the rest, and for each client separately.
        """
        try:
            self._pages.check(request.headers)
        except (HostRefused, OriginRefused) as error:
            return web.Response(status=421 if isinstance(error, HostRefused) else 403, text=f"{error}\n")
        id = request.query.get("sid", "")
        if id in self._sio.eio.sockets and request.transport is not None:
            self._transports[id] = request.transport
        if hdrs.SEC_WEBSOCKET_EXTENSIONS in request.headers:
            headers = CIMultiDict(request.headers)
            headers.popall(hdrs.SEC_WEBSOCKET_EXTENSIONS)
            request = request.clone(headers=headers)
        response: web.StreamResponse = await handler(request)
        return response

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "clients": self.clients})

    async def _running(self, app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as self._http:
            sweeping = asyncio.create_task(self._sweep())
            yield
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)

    async def _sweep(self) -> None:
        """Close connections that do not authenticate in time; forget the transports of those that ended."""
        since: dict[str, float] = {}
        while True:
            await asyncio.sleep(min(1.0, self._limits.auth_timeout))
            now, sockets = time.monotonic(), dict(self._sio.eio.sockets)
            self._transports = {id: one for id, one in self._transports.items() if id in sockets}
            since = {id: since.get(id, now) for id in sockets}
            for id, connected in since.items():
                anonymous = self._sio.manager.sid_from_eio_sid(id, _NAMESPACE) is None
                if anonymous and now - connected > self._limits.auth_timeout:
                    await self._close(id)

    # --- socket.io ------------------------------------------------------------------------------------

    async def _connected(self, sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        id = self._sio.manager.eio_sid_from_sid(sid, _NAMESPACE)
        token = auth.get("token", "") if isinstance(auth, dict) else ""
        if not isinstance(token, str):
            raise _refused(Ending(codes.BAD_REQUEST.code, "auth must be {token: STRING}"))
        client = GatewayClient(
            PublisherSession(token, max_frame=self._limits.max_frame),
            self._publishers,
            self._sio.eio.sockets[id].queue,
            limit=self._limits.queue_bytes,
            emit=lambda event, body: self._sio.emit(event, body, to=sid),
            on_end=lambda ending, may_reconnect: self._end(sid, ending, may_reconnect=may_reconnect),
            stall=self._stall,
            trust=self._trust,
        )
        refused = await client.start(self._http, FIRST_REPLY)
        if refused is not None:
            await client.stop()
            raise _refused(refused)
        self._clients[sid] = client

    async def _disconnected(self, sid: str, reason: str = "") -> None:
        client = self._clients.pop(sid, None)
        if client is not None:
            await client.stop()

    async def _requested(self, event: str, sid: str, *payload: Any) -> Any:
        client = self._clients.get(sid)
        return None if client is None else await client.request(event, payload)

    async def _end(self, sid: str, ending: Ending, *, may_reconnect: bool) -> None:
        """Tell a client why it is disconnected, and disconnect it.

        A client that may reconnect loses its transport, after which socket.io's clients connect again on
        their own; others get socket.io's disconnect packet, after which they do not.
        """
        id = self._sio.manager.eio_sid_from_sid(sid, _NAMESPACE)
        socket = self._sio.eio.sockets.get(id)
        if socket is None:
            return
        if ending == codes.SLOW:
            socket.queue.clear()
        await self._sio.emit("disconnected", ending._asdict(), to=sid)
        if not may_reconnect:
            await self._sio.disconnect(sid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await socket.queue.wait_below(0)
        await self._close(id)

    async def _close(self, id: str) -> None:
        """Close a connection; the client has a moment to close it, too."""
        socket, environ = self._sio.eio.sockets.get(id), self._sio.environ.get(id)
        transport = self._transports.get(id) or (environ and environ["aiohttp.request"].transport)
        if socket is not None:
            await socket.close(wait=False)
        if isinstance(transport, asyncio.Transport):
            asyncio.get_running_loop().call_later(_CLOSE_SECONDS, transport.abort)


def _refused(ending: Ending) -> socketio.exceptions.ConnectionRefusedError:
    return socketio.exceptions.ConnectionRefusedError(
        ending.reason, {"code": ending.code, "message": ending.reason}
    )
