"""Who may have how many of Spark's slots.

In Real-Time Mode each partition is a task that never ends, so a query that gets fewer slots than it has
partitions leaves some unread for ever. One slot is kept for micro-batches, on which all others live.
"""

from __future__ import annotations

import threading

from distributary.store.tail import Build


class Slots:
    """Counts slots that are taken for long; every method may be called from any thread."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._taken: dict[Build, int] = {}
        self._lock = threading.Lock()

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
