"""When a client of a connection has been too slow. Pure: events and their times are passed in."""

from __future__ import annotations

from distributary.config.server_sections import Listening

MIN_RATE = 1024
"""Bytes per second that a client must send of a body, after its first seconds."""


class Deadlines:
    """What one connection waits for: a request's head, its body, or that the client reads the response.

    A client between two requests is idle, which the server's keep-alive time-out is for.
    """

    def __init__(self, settings: Listening, now: float) -> None:
        self._settings = settings
        self._head_since: float | None = now
        self._body_until: float | None = None
        self._idle: float | None = None
        """The pause that a streamed body may have."""
        self._received = now
        self._checked = now
        self._waiting = 0
        """Bytes that were not written at the last check."""
        self._drained = now
        """When the client last read some of them."""

    @property
    def in_head(self) -> bool:
        """True while a head is waited for."""
        return self._head_since is not None

    def head_started(self, now: float) -> None:
        """Note the first byte of another request."""
        if self._head_since is None:
            self._head_since = now

    def head_ended(self, now: float, *, body: bool) -> None:
        """Note that a request's head is complete, and whether a ``body`` follows."""
        self._head_since = self._idle = None
        self._body_until = now + self._settings.body_timeout if body else None
        self._received = now

    def allow_stream(self, idle: float, now: float) -> None:
        """Let the body take any time, with pauses of at most ``idle`` seconds."""
        self._idle, self._received = idle, now

    def body_received(self, size: int, now: float) -> None:
        """Note bytes of the body."""
        self._received = now
        if self._body_until is not None:
            self._body_until += size / MIN_RATE

    def body_ended(self) -> None:
        """Note that the body is complete."""
        self._body_until = self._idle = None

    def missed(self, now: float, *, waiting: int, paused: bool) -> str:
        """Return what the client was too slow with: "head", "body", "write"; or "" if it was not.

        ``waiting`` bytes have not been written yet; ``paused``: the server itself does not read.
        """
        since, self._checked = now - self._checked, now
        if paused:
            self._received = now
            if self._body_until is not None:
                self._body_until += since
        if waiting == 0 or waiting < self._waiting:
            self._drained = now
        self._waiting = waiting
        if now - self._drained > self._settings.write_timeout:
            return "write"
        if self._head_since is not None and now - self._head_since > self._settings.header_timeout:
            return "head"
        if self._idle is not None:
            return "body" if now - self._received > self._idle else ""
        return "body" if self._body_until is not None and now > self._body_until else ""
