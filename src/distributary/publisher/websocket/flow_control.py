"""How often a client may send commands, and how much may wait to be sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from distributary.publisher.codec import websocket_frames
from distributary.publisher.hub import state_budget
from distributary.publisher.hub.state_budget import Turn

Verdict = Literal["yes", "no", "enough"]


class Rate:
    """A bucket of commands that fills at a rate, up to a burst.

    What is refused costs as well: whoever does not slow down owes more and more, and a whole burst of
    debt is enough to be closed for.
    """

    __slots__ = ("_burst", "_last", "_left", "_per_second")

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._last: float | None = None

    def take(self, now: float) -> Verdict:
        """Ask for one command at ``now`` (seconds, never going back)."""
        if self._last is not None:
            self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left >= 0:
            return "yes"
        return "no" if self._left >= -self._burst else "enough"


CHECK = 0.1
"""Seconds between two looks at a connection for which much waits."""


class Outgoing:
    """Bounds what waits for one reader: ``limit`` bytes, and beside them the states that were sent to it.

    A transport reports only once that more waits than its limit, and then nothing until most of that has gone
    out. A reader may take a little just then, and fall behind for good: so while a transport is paused, and
    while more than the ordinary is allowed, what waits is looked at again and again. A reader that does not
    take its state is too slow as well.
    """

    def __init__(self, transport: asyncio.WriteTransport, limit: int, too_slow: Callable[[], object]) -> None:
        self._transport = transport
        self._limit = limit
        self._allowed = limit
        self._too_slow = too_slow
        self._paused = False
        self._turns: list[Turn] = []
        self._timer: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._seen = (0.0, 0)
        transport.set_write_buffer_limits(high=limit)

    @property
    def waiting(self) -> int:
        """Count the bytes that wait."""
        return self._transport.get_write_buffer_size()

    @property
    def room(self) -> int:
        """Say how much may wait beside what waits, so that a reader who is slow gets the newest next."""
        return min(websocket_frames.ROOM, self._limit // 2) - self.waiting

    def allow(self, size: int) -> None:
        """Let a state of so many bytes wait beside the rest, until the reader has taken it."""
        self._allowed += size
        self._transport.set_write_buffer_limits(high=self._allowed)
        self._seen = (self._loop.time(), self.waiting + size)
        self._watch()

    def carry(self, turn: Turn) -> None:
        """End a turn when no more than the ordinary waits: then its state has gone out."""
        if self.waiting > self._limit:
            self._turns.append(turn)
        else:
            turn.end()

    async def drained(self) -> None:
        """Wait until no more than the ordinary waits."""
        while self.waiting > self._limit:
            await asyncio.sleep(CHECK / 5)  # a transport reports nothing below a raised limit
        self.check()

    def paused(self) -> None:
        """Note that more waits than is allowed. The writer may be in the middle of a fan-out: look later."""
        self._paused = True
        self.stop()
        self._timer = self._loop.call_soon(self.check)

    def resumed(self) -> None:
        """Note that most of what waited has gone out."""
        self._paused = False

    def check(self) -> None:
        """Report a reader that is too slow; take back what was allowed for states that it has taken."""
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
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """End the turns of all states: the reader has them, or nothing waits any more."""
        turns, self._turns = self._turns, []
        for turn in turns:
            turn.end()

    def _stalled(self, waiting: int) -> bool:
        """Say whether the reader has a state to take and does not."""
        now, (since, before) = self._loop.time(), self._seen
        if waiting <= self._limit or waiting <= before - state_budget.PROGRESS:
            self._seen = (now, waiting)
            return False
        return self._allowed != self._limit and now - since > state_budget.STALL

    def _watch(self) -> None:
        if self._timer is None and (self._paused or self._allowed != self._limit):
            self._timer = self._loop.call_later(CHECK, self.check)
