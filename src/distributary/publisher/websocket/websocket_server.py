"""The WebSocket's listening socket, and all its connections."""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus

from picows import WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener

from distributary.config import Config
from distributary.config.sections import Publisher
from distributary.errors import HostRefused, OriginRefused, PortTaken
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_limits import Connections
from distributary.httpd.cors import PageRules
from distributary.httpd.listener import tls_arguments
from distributary.publisher.access.door import Door
from distributary.publisher.codec import codes
from distributary.publisher.counters import Stats
from distributary.publisher.hub.hub import Hub
from distributary.publisher.websocket import handshake
from distributary.publisher.websocket.accepting import CountedProtocol, create_server
from distributary.publisher.websocket.client_publish import Inlet
from distributary.publisher.websocket.websocket_connection import CLOSE_WAIT, DRAIN_POLL, Connection

PATH = "/connection/websocket"
SLICES = 8
"""Pings go out in that many portions of an interval, so that they do not come in one burst."""


class WebSocketServer:
    """The listening socket and all connections."""

    def __init__(
        self,
        hub: Hub,
        settings: Publisher,
        stats: Stats,
        inlet: Inlet | None = None,
        door: Door | None = None,
        tally: Connections | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self.hub = hub
        self.door = door or Door(Config(), hub.store)
        self.inlet = inlet
        self.settings = settings
        self._pages = PageRules("publisher", settings)
        self.stats = stats
        self._certificates = certificates or Certificates(settings, "publisher")
        self.tally = tally or Connections(settings)
        self.connections: dict[Connection, None] = {}
        self.lingering: set[Connection] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self, *, port: int | None = None, share: bool = False) -> None:
        """Listen. Raises PortTaken."""
        wanted = self.settings.port if port is None else port
        try:
            server = await create_server(
                lambda: CountedProtocol(self._accept, self.settings, self.tally),
                self.settings.host,
                wanted,
                reuse_port=share or None,
                backlog=1024,
                **tls_arguments(self._certificates, self.settings),
            )
        except OSError as error:
            raise port_taken(self.settings.host, wanted, "publisher.port", error) from None
        self._server = server
        self.port = server.sockets[0].getsockname()[1]

    async def run(self) -> None:
        """Ping the connections, a portion at a time."""
        slice_ = 0
        while True:
            await asyncio.sleep(self.settings.ping_interval / SLICES)
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

    def _accept(self, request: WSUpgradeRequest, peer: str) -> WSUpgradeResponseWithListener:
        headers = request.headers
        path, _, query = request.path.decode(errors="replace").partition("?")
        if path != PATH:
            return _refuse(HTTPStatus.NOT_FOUND, f"the WebSocket is at {PATH}")
        try:
            self._pages.check(headers)
        except HostRefused as error:
            return _refuse(HTTPStatus.MISDIRECTED_REQUEST, str(error))
        except OriginRefused as error:
            self.stats.refused_origins += 1
            return _refuse(HTTPStatus.FORBIDDEN, str(error))
        client = self.tally.begin(peer, headers)
        if client is None:
            return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections of this client")
        wire, answer = handshake.agree(
            ",".join(headers.getall("Sec-WebSocket-Protocol", [])),
            query,
            ",".join(headers.getall("Sec-WebSocket-Extensions", [])),
            compression=self.settings.compression,
        )
        compressed = "Sec-WebSocket-Extensions" in answer
        address = self.tally.client_address(peer, headers)
        connection = Connection(self, wire, headers, compressed=compressed, client=client, address=address)
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(answer), connection)


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
