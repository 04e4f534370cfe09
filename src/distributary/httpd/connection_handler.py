"""aiohttp's handler of one connection, extended to count connections and close slow clients.

aiohttp itself has a time-out for idle connections only. The current request and its body are in private
attributes: the version is pinned, and ``tests/integration/httpd/test_listener.py`` fails if one of them is
removed.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from aiohttp import web
from aiohttp.streams import StreamReader

from distributary.config.server_sections import Listening
from distributary.httpd.client_timeouts import Deadlines
from distributary.httpd.connection_limits import Connections

_CLOSE_TIMEOUT = 1.0
"""Seconds that a client has to read the last response of a connection."""


def closing_response(status: str, code: str, message: str) -> bytes:
    """Write a response that ends the connection; its body is that of all servers' errors at once."""
    error = {"code": code, "message": message, "hint": "", "retry": True}
    body = json.dumps({"error": error, "error_code": int(status[:3]), "message": message}).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


BUSY = closing_response("503 Service Unavailable", "too-many-connections", "there are too many connections")
_TOO_SLOW = closing_response("408 Request Timeout", "too-slow", "the request was not sent in time")


class Handler(web.RequestHandler):
    """One connection. ``check`` must be called at intervals until the connection is lost."""

    __slots__ = ("_client", "_deadlines", "_open", "_payload", "_received", "_settings", "_tally", "_wire")

    def __init__(
        self,
        server: web.Server,
        settings: Listening,
        tally: Connections,
        open: set[Handler],
        **more: Any,
    ) -> None:
        super().__init__(server, keepalive_timeout=settings.keepalive_timeout, **more)
        self._settings = settings
        self._tally = tally
        self._open = open
        self._client: str | None = None
        self._payload: StreamReader | None = None
        self._wire: asyncio.Transport | None = None
        self._received = False
        self._deadlines = Deadlines(settings, self._loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; one over the limit gets a response and is closed."""
        wire = cast(asyncio.Transport, transport)
        self._client = self._tally.enter(peer_of(wire))
        if self._client is None:
            self._force_close = True
            self._manager = None
            wire.write(BUSY)
            wire.close()
            self._loop.call_later(_CLOSE_TIMEOUT, wire.abort)
            return
        self._wire = wire
        self._open.add(self)
        self._deadlines = Deadlines(self._settings, self._loop.time())
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count the connection as closed."""
        if self._client is not None:
            self._tally.leave(self._client)
            self._client = None
        self._open.discard(self)
        self._wire = self._payload = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, and note what they belong to."""
        now = self._loop.time()
        if data and self._waiter is not None and not self._waiter.done():
            self._deadlines.head_started(now)
        self._received = self._received or bool(data)
        before = self._request_count
        super().data_received(data)
        if self._request_count != before and self._messages:
            self._payload = self._messages[-1][1]
            self._deadlines.head_ended(now, body=not self._payload.is_eof())
        elif data and self._payload is not None:
            self._deadlines.body_received(len(data), now)

    def allow_stream(self, idle: float) -> None:
        """Let the body of the current request take any time."""
        self._deadlines.allow_stream(idle, self._loop.time())

    def check(self) -> None:
        """Close the connection if its client has been too slow."""
        if self._wire is None:
            return
        if self._payload is not None and self._payload.is_eof():
            self._payload = None
            self._deadlines.body_ended()
        waiting = self._wire.get_write_buffer_size()
        paused = self._reading_paused or self._buffer_paused
        missed = self._deadlines.missed(self._loop.time(), waiting=waiting, paused=paused)
        if missed:
            self._tally.timed_out[missed] += 1
            self._cut_off(self._wire, respond=self._received and self._may_respond(missed))

    def _may_respond(self, missed: str) -> bool:
        """True if a response may be sent: none was started, and some of a request was received."""
        request = self._current_request
        if missed == "body":
            return request is not None and request.writer.output_size == 0
        return missed == "head"

    def _cut_off(self, wire: asyncio.Transport, *, respond: bool) -> None:
        if respond and not wire.is_closing():
            wire.write(_TOO_SLOW)
            self.force_close()
            self._loop.call_later(_CLOSE_TIMEOUT, wire.abort)
        else:
            self.force_close()
            wire.abort()


def expect_stream(request: web.Request, idle: float) -> None:
    """Let the body of a request take any time, with pauses of at most ``idle`` seconds."""
    if isinstance(request.protocol, Handler):
        request.protocol.allow_stream(idle)


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the address of the client of a connection; "" if it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""
