"""A budget for states that are being sent: what subscribers have still to read must fit into memory.

A state, or what a subscriber missed, is written as a whole, beside what else may wait for a reader. So all of
them in a process share a budget, and a join waits for its turn before it reads anything. How large its state
is shows only then: the last one of the same query was about as large, and where there was none, a few joins
at a time find out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused

SMALL = 65_536
"""States up to this size are not counted: as much may wait for any reader."""

MAX_UNKNOWN = 16
"""How many states of unknown size may be under way at a time."""

TURN_TIMEOUT = 4.0
"""Seconds that a join waits for room. Clients give up after 5 on their own: they get an error before that."""

STALL_SECONDS, STALL_BYTES = 20.0, 65_536
"""A reader that has a state to read must take this many bytes of it in this many seconds, or is closed.

The kernel accepts more for a slow reader only when a third of what it has for it is gone."""

ExpectedSize = Callable[[], int | None]
"""Returns how large a state will be; None while that is unknown."""


class Turn:
    """One state under way, from before it is read until its reader has it. ``end`` it in any case."""

    def __init__(self, budget: StateBudget, size: int | None) -> None:
        self._budget = budget
        self._size = size

    def resize(self, size: int) -> None:
        """Set how large it is."""
        before, now = self._size, size if size > SMALL else 0
        self._size = now
        self._budget.change(before, now)

    def end(self) -> None:
        """End it, unless it has ended."""
        self.resize(0)


class StateBudget:
    """Bytes of states under way in this process. Joins that find no room wait, first come first served.

    A state that is larger than the whole budget has its turn alone.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        # How many states of unknown size are under way.
        self.unknown = 0
        self._limit = limit
        self._queue: deque[tuple[ExpectedSize, asyncio.Future[Turn]]] = deque()

    @property
    def waiting(self) -> int:
        """How many joins wait."""
        return len(self._queue)

    async def turn(self, expected: ExpectedSize) -> Turn:
        """Wait for a turn. Raises Refused when there is no room for too long."""
        size = _counted(expected())
        if size == 0 or (not self._queue and self._free(size)):
            return self._start(size)
        waiter: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        entry = (expected, waiter)
        self._queue.append(entry)
        try:
            while True:
                done, _ = await asyncio.wait((waiter,), timeout=TURN_TIMEOUT)
                if done:
                    return waiter.result()
                # Those that only wait until others have found out how large theirs are go on waiting.
                if not self._room(_counted(expected())):
                    raise Refused(codes.BUSY)
        except BaseException:
            if waiter.done():
                waiter.result().end()
            else:
                self._queue.remove(entry)
                self._wake()
            raise

    def add(self, size: int) -> Turn:
        """Count a state that was read already."""
        turn = Turn(self, 0)
        turn.resize(size)
        return turn

    def change(self, before: int | None, now: int) -> None:
        """Count a state whose size has changed (``before`` None: was unknown)."""
        self.unknown -= before is None
        self.used += now - (before or 0)
        self._wake()

    def _room(self, size: int | None) -> bool:
        return not self.used or self.used + (size or 1) <= self._limit

    def _free(self, size: int | None) -> bool:
        return self._room(size) and (size is not None or self.unknown < MAX_UNKNOWN)

    def _start(self, size: int | None) -> Turn:
        self.unknown += size is None
        self.used += size or 0
        return Turn(self, size)

    def _wake(self) -> None:
        while self._queue:
            expected, waiter = self._queue[0]
            size = _counted(expected())
            if not self._free(size):
                return
            self._queue.popleft()
            waiter.set_result(self._start(size))


def _counted(size: int | None) -> int | None:
    return 0 if size is not None and size <= SMALL else size
