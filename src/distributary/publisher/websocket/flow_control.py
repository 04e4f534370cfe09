"""How often a client may send commands, and how much may wait to be sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from distributary.publisher.hub import state_budget
from distributary.publisher.hub.conflation import MAX_BACKLOG
from distributary.publisher.hub.state_budget import Turn

POLL = 0.1
"""Seconds between two checks of a connection for which much waits."""


class Verdict(Enum):
    """What to do with a command."""

    ALLOWED = "allowed"
    LIMITED = "limited"
    """Refuse it."""
    FLOOD = "flood"
    """Close the connection."""


class CommandRate:
    """A token bucket of commands. The caller brings the clock.

    Rejected commands also consume tokens; a client that falls one full burst into debt is disconnected.
    """

    __slots__ = ("_burst", "_last", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        # When the bucket was last filled; None: never.
        self._last: float | None = None

    def take(self, now: float) -> Verdict:
        """Take a token for one command at ``now`` (seconds, never going back)."""
        if self._last is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._per_second)
        self._last = now
        self._tokens -= 1
        if self._tokens >= 0:
            return Verdict.ALLOWED
        return Verdict.LIMITED if self._tokens >= -self._burst else Verdict.FLOOD


class SendBuffer:
    """Bounds what waits for one reader: ``limit`` bytes, and beside them the states that were sent to it.

    A transport reports only once that more waits than its limit, and then nothing until most of that has gone
    out. A reader may take a little just then, and fall behind for good. So while a transport is paused, and
    while more than the limit is allowed, what waits is checked again and again. A reader that does not take
    its state is too slow as well.
    """

    def __init__(self, transport: asyncio.WriteTransport, limit: int, too_slow: Callable[[], object]) -> None:
        self._transport = transport
        self._limit = limit
        # The limit and the states that were sent since less than that waited.
        self._allowed = limit
        self._too_slow = too_slow
        # The transport has reported that more waits than is allowed.
        self._paused = False
        # The turns of states that the reader has not read yet.
        self._turns: list[Turn] = []
        self._timer: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        # When the reader was last seen to read, and how much waited then.
        self._progress = (0.0, 0)
        transport.set_write_buffer_limits(high=limit)

    @property
    def waiting(self) -> int:
        """How many bytes wait."""
        return self._transport.get_write_buffer_size()

    @property
    def room(self) -> int:
        """How many more bytes may wait, so that a slow reader is sent the newest rows next."""
        return min(MAX_BACKLOG, self._limit // 2) - self.waiting

    def allow(self, size: int) -> None:
        """Let a state of this size wait beside the rest, until the reader has taken it."""
        self._allowed += size
        self._transport.set_write_buffer_limits(high=self._allowed)
        self._progress = (self._loop.time(), self.waiting + size)
        self._watch()

    def release_when_read(self, turn: Turn) -> None:
        """End a turn when no more than the limit waits: then its state has gone out."""
        if self.waiting > self._limit:
            self._turns.append(turn)
        else:
            turn.end()

    async def drained(self) -> None:
        """Wait until no more than the limit waits."""
        while self.waiting > self._limit:
            await asyncio.sleep(POLL / 5)  # a transport reports nothing below a raised limit
        self.check()

    def paused(self) -> None:
        """Note that more waits than is allowed. The writer may be in the middle of a fan-out: check later."""
        self._paused = True
        self.stop()
        self._timer = self._loop.call_soon(self.check)

    def resumed(self) -> None:
        """Note that most of what waited has gone out."""
        self._paused = False

    def check(self) -> None:
        """Report a reader that is too slow; lower the limit again once it has read its states."""
        self.stop()
        waiting = self.waiting
        if waiting > self._allowed or self._stalled(waiting):
            self._too_slow()
            return
        if waiting <= self._limit:
            self.release()
            if self._allowed != self._limit:
                self._allowed = self._limit
                self._transport.set_write_buffer_limits(high=self._limit)
        self._watch()

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """End the turns of all states: the reader has read them, or is gone."""
        turns, self._turns = self._turns, []
        for turn in turns:
            turn.end()

    def _stalled(self, waiting: int) -> bool:
        """Return whether the reader has a state to read and does not."""
        now, (since, before) = self._loop.time(), self._progress
        if waiting <= self._limit or waiting <= before - state_budget.STALL_BYTES:
            self._progress = (now, waiting)
            return False
        return self._allowed != self._limit and now - since > state_budget.STALL_SECONDS

    def _watch(self) -> None:
        if self._timer is None and (self._paused or self._allowed != self._limit):
            self._timer = self._loop.call_later(POLL, self.check)
