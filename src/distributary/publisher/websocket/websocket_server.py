"""The WebSocket's listening socket, the handshake, and all connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs

from picows import WSAutoPingStrategy, WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows import picows as internals

from distributary.config import Config
from distributary.config.server_sections import Publisher
from distributary.errors import HostRefused, OriginRefused, PortTaken
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_handler import BUSY, peer_of
from distributary.httpd.connection_limits import Connections
from distributary.httpd.cors import OriginPolicy
from distributary.httpd.listener import tls_arguments
from distributary.publisher.access_control import AccessControl
from distributary.publisher.codec import codes
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON, JSON_DEFLATE
from distributary.publisher.codec.protobuf_codec import PROTOBUF, PROTOBUF_DEFLATE
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Counters
from distributary.publisher.websocket.client_publish import ClientPublisher
from distributary.publisher.websocket.websocket_connection import CLOSE_WAIT, DRAIN_POLL, Connection

DEFLATE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
"""The reply to an offer of compression: every message is compressed by itself, in both directions."""


def agree(protocols: str, query: str, extensions: str, *, compression: bool) -> tuple[Codec, dict[str, str]]:
    """Choose a format and the headers of the response. Pure.

    ``protocols`` and ``extensions`` are the headers Sec-WebSocket-Protocol and -Extensions, '' without them.
    Without a known subprotocol the URL may have ``format=protobuf``; else it is JSON.
    """
    offered = [name.strip() for name in protocols.split(",")]
    chosen = next((name for name in offered if name in (JSON.subprotocol, PROTOBUF.subprotocol)), "")
    parameters = parse_qs(query)
    binary = chosen == PROTOBUF.subprotocol or (
        not chosen and "protobuf" in (*parameters.get("format", ()), *parameters.get("cf_protocol", ()))
    )
    compress = compression and any(_acceptable(offer) for offer in extensions.split(","))
    headers: dict[str, str] = {}
    if chosen:
        headers["Sec-WebSocket-Protocol"] = chosen
    if compress:
        headers["Sec-WebSocket-Extensions"] = DEFLATE
        return (PROTOBUF_DEFLATE if binary else JSON_DEFLATE), headers
    return (PROTOBUF if binary else JSON), headers


def _acceptable(offer: str) -> bool:
    """Return whether an offer can be accepted. A smaller server window cannot: connections share bytes."""
    name, *parameters = (part.strip() for part in offer.split(";"))
    if name != "permessage-deflate":
        return False
    given = [
        (key.strip(), value.strip().strip('"')) for key, _, value in (p.partition("=") for p in parameters)
    ]
    if len({key for key, _ in given}) != len(given):
        return False
    return all(
        (key in ("server_no_context_takeover", "client_no_context_takeover") and not value)
        or (key == "client_max_window_bits" and value in ("", *map(str, range(8, 16))))
        or (key == "server_max_window_bits" and value == "15")
        for key, value in given
    )


Accept = Callable[[WSUpgradeRequest, str], WSUpgradeResponseWithListener]
"""Responds to the request of a handshake, which comes from an address."""

_PINGS = 20.0  # picows' own, which are off
_READ_BUFFER = 4_096
"""Bytes that are read at a time: their commands are all handled before the next connection's turn."""
_quiet = logging.getLogger("picows.quiet")


class CountedProtocol(internals.WSProtocol):  # type: ignore[misc, name-defined]  # the stubs do not have it
    """picows' handler of one socket, which counts connections from the moment that they are accepted.

    picows reports a connection when its handshake is over; until then it would not be counted. What is used
    of picows besides its public names is the handler's class: the version is pinned, and
    ``tests/integration/publisher/test_connections.py`` fails when it changes. A connection over a limit is
    closed at once.
    """

    def __init__(self, accept: Accept, settings: Publisher, tally: Connections) -> None:
        super().__init__(
            *(None, None, False, self._respond, _quiet, True),
            min(settings.auth_timeout, settings.header_timeout),
            *(False, _PINGS, _PINGS, WSAutoPingStrategy.PING_WHEN_IDLE, True),
            *(settings.max_frame, None, _READ_BUFFER),
        )
        self._accept = accept
        self._tally = tally
        self._client: str | None = None
        self._peer = ""

    def _respond(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        return self._accept(request, self._peer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        super().connection_made(transport)
        self._peer = peer_of(transport)
        self._client = self._tally.enter(self._peer)
        if self._client is None:
            writable = cast(asyncio.Transport, transport)
            writable.write(BUSY)
            # Not at once: the transport begins to read after this call, whether it is closed or not.
            asyncio.get_running_loop().call_soon(writable.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection as over."""
        if self._client is not None:
            self._tally.leave(self._client)
            self._client = None
        super().connection_lost(exc)


async def create_server(factory: Callable[[], CountedProtocol], host: str, port: int, **more: Any) -> Any:
    """Listen with the transports that picows would use: faster ones than the loop's, if available."""
    try:
        import aiofastnet
    except ImportError:
        return await asyncio.get_running_loop().create_server(factory, host, port, **more)
    return await aiofastnet.create_server(asyncio.get_running_loop(), factory, host, port, **more)


PATH = "/connection/websocket"
PING_TURNS = 8
"""Pings are sent in this many portions of an interval, so that they do not come in one burst."""


class WebSocketServer:
    """The listening socket and all connections."""

    def __init__(
        self,
        hub: Hub,
        settings: Publisher,
        stats: Counters,
        *,
        client_publisher: ClientPublisher | None = None,
        access: AccessControl | None = None,
        tally: Connections | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self.hub = hub
        self.access = access or AccessControl(Config(), hub.store)
        # Writes the messages of clients; None without Kafka: then they are refused.
        self.client_publisher = client_publisher
        self.settings = settings
        self._origins = OriginPolicy("publisher", settings)
        self.stats = stats
        self._certificates = certificates or Certificates(settings, "publisher")
        # Counts connections by client, from the moment that they are accepted.
        self.tally = tally or Connections(settings)
        # The connections that are served, and all whose socket is still open.
        self.connections: dict[Connection, None] = {}
        self.open_sockets: set[Connection] = set()
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
        turn = 0
        while True:
            await asyncio.sleep(self.settings.ping_interval / PING_TURNS)
            turn = (turn + 1) % PING_TURNS
            for connection in [c for c in self.connections if c.number % PING_TURNS == turn]:
                connection.ping()

    async def stop(self) -> None:
        """Close the socket and tell every client to reconnect."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.end(codes.SHUTDOWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WAIT):
                while self.open_sockets:
                    await asyncio.sleep(DRAIN_POLL)

    def _accept(self, request: WSUpgradeRequest, peer: str) -> WSUpgradeResponseWithListener:
        headers = request.headers
        path, _, query = request.path.decode(errors="replace").partition("?")
        if path != PATH:
            return _refuse(HTTPStatus.NOT_FOUND, f"the WebSocket is at {PATH}")
        try:
            self._origins.check(headers)
        except HostRefused as error:
            return _refuse(HTTPStatus.MISDIRECTED_REQUEST, str(error))
        except OriginRefused as error:
            self.stats.refused_origins += 1
            return _refuse(HTTPStatus.FORBIDDEN, str(error))
        client = self.tally.begin(peer, headers)
        if client is None:
            return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections of this client")
        codec, answer = agree(
            ",".join(headers.getall("Sec-WebSocket-Protocol", [])),
            query,
            ",".join(headers.getall("Sec-WebSocket-Extensions", [])),
            compression=self.settings.compression,
        )
        compressed = "Sec-WebSocket-Extensions" in answer
        address = self.tally.client_address(peer, headers)
        connection = Connection(self, codec, headers, compressed=compressed, client=client, address=address)
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(answer), connection)


def _refuse(status: HTTPStatus, why: str) -> WSUpgradeResponseWithListener:
    return WSUpgradeResponseWithListener(
        WSUpgradeResponse.create_error_response(status, f"{why}\n".encode()), None
    )


def port_taken(host: str, port: int, setting: str, error: OSError) -> PortTaken:
    """Return the error for an address that cannot be listened on; ``setting`` names it."""
    why = error.strerror or str(error)
    return PortTaken(
        f"cannot listen on {host}:{port}: {why}", hint=f"Free it, or choose another with {setting}"
    )
