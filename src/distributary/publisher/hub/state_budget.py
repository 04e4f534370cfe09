"""Turns to be sent a state: what subscribers have still to read of theirs must fit into memory, too.

A state, or what a subscriber missed, goes out whole, beside what else may wait for a reader. So there is a
budget for all of them in a process. A join waits for its turn before it reads anything. How large its state
is shows only then; the last one of the same query was about as large, and where there was none, a few joins
at a time find out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused

SMALL = 65_536
"""States up to this size do not count: as much may wait for any reader."""

UNKNOWN = 16
"""So many states that nobody knows the size of are under way at a time, at most."""

PATIENCE = 4.0
"""Seconds that a join waits for room. Clients give up after 5 by themselves: they are told before."""

STALL, PROGRESS = 20.0, 65_536
"""Whoever has a state to read takes so many bytes of it in so many seconds, at least, or is closed.

The kernel takes on more for a slow reader only when a third of what it has for it is gone."""

Expected = Callable[[], int | None]
"""Says how large a state will be; None while nobody knows."""


class Turn:
    """One state under way, from before it is read until its reader has it. ``end`` it in any case."""

    def __init__(self, budget: Budget, size: int | None) -> None:
        self._budget = budget
        self._size = size

    def resize(self, size: int) -> None:
        """Take note of how large it is."""
        before, now = self._size, size if size > SMALL else 0
        self._size = now
        self._budget.change(before, now)

    def end(self) -> None:
        """Take note that it is over. Again: nothing."""
        self.resize(0)


class Budget:
    """Bytes of states that are under way in this process; who finds no room waits, first come first served.

    One that is larger than the whole has its turn alone.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        self.unknown = 0
        self._limit = limit
        self._queue: deque[tuple[Expected, asyncio.Future[Turn]]] = deque()

    @property
    def waiting(self) -> int:
        """Count the joins that wait."""
        return len(self._queue)

    async def turn(self, expected: Expected) -> Turn:
        """Wait for a turn. Raises Refused when there is no room for too long."""
        size = _counted(expected())
        if size == 0 or (not self._queue and self._free(size)):
            return self._begin(size)
        waiter: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        entry = (expected, waiter)
        self._queue.append(entry)
        try:
            while True:
                done, _ = await asyncio.wait((waiter,), timeout=PATIENCE)
                if done:
                    return waiter.result()
                # Those who only wait until others have found out how large theirs are go on waiting.
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
        """Count a state that is there already."""
        turn = Turn(self, 0)
        turn.resize(size)
        return turn

    def change(self, before: int | None, now: int) -> None:
        """Count a state that is of another size than it was, or than nobody knew."""
        self.unknown -= before is None
        self.used += now - (before or 0)
        self._wake()

    def _room(self, size: int | None) -> bool:
        return not self.used or self.used + (size or 1) <= self._limit

    def _free(self, size: int | None) -> bool:
        return self._room(size) and (size is not None or self.unknown < UNKNOWN)

    def _begin(self, size: int | None) -> Turn:
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
            waiter.set_result(self._begin(size))


def _counted(size: int | None) -> int | None:
    return 0 if size is not None and size <= SMALL else size
