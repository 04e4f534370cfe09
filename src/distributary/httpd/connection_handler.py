"""aiohttp's handler of one connection, which counts connections and closes slow clients.

aiohttp has a limit for idle connections only. What is needed beside its public names (which request is under
way, its body) is in private ones: the version is pinned, and ``tests/integration/httpd/test_listener.py``
fails when one of them goes.
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

_LAST_WORDS = 1.0
"""Seconds that a client has to take the last reply of a connection."""


def reply_bytes(status: str, code: str, message: str) -> bytes:
    """Write a reply that ends the connection, in the shapes of all servers' errors."""
    error = {"code": code, "message": message, "hint": "", "retry": True}
    body = json.dumps({"error": error, "error_code": int(status[:3]), "message": message}).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


BUSY = reply_bytes("503 Service Unavailable", "too-many-connections", "there are too many connections")
_TOO_SLOW = reply_bytes("408 Request Timeout", "too-slow", "the request did not come in time")


class Handler(web.RequestHandler):
    """One connection. ``check`` is to be called every now and then until the connection is lost."""

    __slots__ = ("_client", "_deadlines", "_heard", "_open", "_payload", "_settings", "_tally", "_wire")

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
        self._heard = False
        self._deadlines = Deadlines(settings, self._loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; one that is too much gets an answer and nothing else."""
        wire = cast(asyncio.Transport, transport)
        self._client = self._tally.enter(peer_of(wire))
        if self._client is None:
            self._force_close = True
            self._manager = None
            wire.write(BUSY)
            wire.close()
            self._loop.call_later(_LAST_WORDS, wire.abort)
            return
        self._wire = wire
        self._open.add(self)
        self._deadlines = Deadlines(self._settings, self._loop.time())
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count the connection as over."""
        if self._client is not None:
            self._tally.leave(self._client)
            self._client = None
        self._open.discard(self)
        self._wire = self._payload = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and note what they are of."""
        now = self._loop.time()
        if data and self._waiter is not None and not self._waiter.done():
            self._deadlines.head_began(now)
        self._heard = self._heard or bool(data)
        before = self._request_count
        super().data_received(data)
        if self._request_count != before and self._messages:
            self._payload = self._messages[-1][1]
            self._deadlines.head_ended(now, body=not self._payload.is_eof())
        elif data and self._payload is not None:
            self._deadlines.body_came(len(data), now)

    def streams(self, idle: float) -> None:
        """Let the body of the request under way come for as long as it likes."""
        self._deadlines.streams(idle, self._loop.time())

    def check(self) -> None:
        """Close the connection when its client has been too slow."""
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
            self._cut(self._wire, answer=self._heard and self._may_answer(missed))

    def _may_answer(self, missed: str) -> bool:
        """Say whether a reply is due: none has begun, to a request of which something came."""
        request = self._current_request
        if missed == "body":
            return request is not None and request.writer.output_size == 0
        return missed == "head"

    def _cut(self, wire: asyncio.Transport, *, answer: bool) -> None:
        if answer and not wire.is_closing():
            wire.write(_TOO_SLOW)
            self.force_close()
            self._loop.call_later(_LAST_WORDS, wire.abort)
        else:
            self.force_close()
            wire.abort()


def expect_stream(request: web.Request, idle: float) -> None:
    """Let a request's body come for as long as it likes, with pauses of ``idle`` seconds at most."""
    if isinstance(request.protocol, Handler):
        request.protocol.streams(idle)


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Give the address that a connection comes from; "" where there is none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""
