"""When a client of a connection has been too slow. Pure: it is told what happens, and when."""

from __future__ import annotations

from distributary.config.server_sections import Listening

LEAST_RATE = 1024
"""Bytes of a body that a client sends in a second, at least, once its first seconds are over."""


class Deadlines:
    """What one connection waits for: a head, a body, or that the client takes what was written.

    A client that has not been asked for anything yet is idle; the server's keep-alive is for those.
    """

    def __init__(self, settings: Listening, now: float) -> None:
        self._settings = settings
        self._head_since: float | None = now
        self._body_until: float | None = None
        self._idle: float | None = None
        self._heard = now
        self._looked = now
        self._waiting = 0
        self._taken = now

    @property
    def in_head(self) -> bool:
        """Say whether a head is waited for."""
        return self._head_since is not None

    def head_began(self, now: float) -> None:
        """Note the first byte of a further request."""
        if self._head_since is None:
            self._head_since = now

    def head_ended(self, now: float, *, body: bool) -> None:
        """Note that a request's head is there, and whether a ``body`` is still to come."""
        self._head_since = self._idle = None
        self._body_until = now + self._settings.body_timeout if body else None
        self._heard = now

    def streams(self, idle: float, now: float) -> None:
        """Let the body take as long as it likes, with pauses of ``idle`` seconds at most."""
        self._idle, self._heard = idle, now

    def body_came(self, size: int, now: float) -> None:
        """Note bytes of the body."""
        self._heard = now
        if self._body_until is not None:
            self._body_until += size / LEAST_RATE

    def body_ended(self) -> None:
        """Note that the body is there."""
        self._body_until = self._idle = None

    def missed(self, now: float, *, waiting: int, paused: bool) -> str:
        """Say what the client was too slow with: "head", "body", "write" or, when it was not, "".

        ``waiting`` bytes have not gone out yet; ``paused``: it is us who do not read.
        """
        since, self._looked = now - self._looked, now
        if paused:
            self._heard = now
            if self._body_until is not None:
                self._body_until += since
        if waiting == 0 or waiting < self._waiting:
            self._taken = now
        self._waiting = waiting
        if now - self._taken > self._settings.write_timeout:
            return "write"
        if self._head_since is not None and now - self._head_since > self._settings.header_timeout:
            return "head"
        if self._idle is not None:
            return "body" if now - self._heard > self._idle else ""
        return "body" if self._body_until is not None and now > self._body_until else ""
