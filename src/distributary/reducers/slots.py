"""Who may have how many of Spark's slots.

In Real-Time Mode each partition is a task that never ends, so a query that gets fewer slots than it has
partitions leaves some unread for ever. One slot is kept for micro-batches, on which all others live.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from distributary.model.build import Build


class Slots:
    """Counts slots that are taken for long; every method may be called from any thread.

    ``count`` says how many there are now: on a cluster they come and go with its workers.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._taken: dict[Build, int] = {}
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """How many there are, taken or not."""
        return self._count()

    def take(self, build: Build, count: int) -> bool:
        """Take slots in place of what a build had; False, with nothing taken, when too few are free."""
        with self._lock:
            self._taken.pop(build, None)
            if sum(self._taken.values()) + count > self.total - 1:
                return False
            self._taken[build] = count
            return True

    def give(self, build: Build) -> None:
        """Give back what a build has; nothing is no error."""
        with self._lock:
            self._taken.pop(build, None)
