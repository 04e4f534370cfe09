"""The bounded queue between the loop that Spark gives records to and the thread that folds them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

GROUP_RECORDS = 5_000
PENDING_RECORDS, PENDING_BYTES = 20_000, 32_000_000
"""How much may wait, besides the one batch that is being added."""


class Work(NamedTuple):
    """What the thread has to do: records to fold, in order."""

    records: list[bytes]
    refresh: bool
    """A command came: read the registry before a write would be refused for it."""
    finished: bool
    """There will be no more records."""


class RecordQueue:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._pending: deque[list[bytes]] = deque()
        self._records = self._bytes = 0
        self._finished = False
        self._refresh = False
        self.abandoned = False
        """Nothing more is to be written."""
        self.failure: BaseException | None = None
        """Why no more records are taken."""

    def put(self, records: list[bytes]) -> None:
        """Add records; waits while too many are pending. Raises the failure, once there is one."""
        with self._condition:
            while self._full() and self.failure is None:
                self._condition.wait(1.0)
            if self.failure is not None:
                raise self.failure
            self._pending.append(records)
            self._records += len(records)
            self._bytes += sum(map(len, records))
            self._condition.notify_all()

    def take(self, timeout: Callable[[], float], ready: Callable[[], bool]) -> Work | None:
        """Wait for work, for the time-out, or until ``ready``; None when abandoned.

        Takes whole batches, about as many records as one group may have.
        """
        with self._condition:
            while not (self._pending or self._finished or self._refresh or ready()):
                if not self._condition.wait(timeout()):
                    break
            if self.abandoned:
                return None
            records = list(self._pending.popleft()) if self._pending else []
            while self._pending and len(records) + len(self._pending[0]) <= GROUP_RECORDS:
                records += self._pending.popleft()
            self._records -= len(records)
            self._bytes -= sum(map(len, records))
            refresh, self._refresh = self._refresh, False
            self._condition.notify_all()
            return Work(records, refresh, finished=self._finished and not self._pending)

    def wait_until(self, ready: Callable[[], bool], step: float) -> bool:
        """Wait until ``ready``, which is checked when notified and every ``step``; False when abandoned."""
        with self._condition:
            while not ready():
                self._condition.wait(step)
                if self.abandoned:
                    return False
            return True

    def finish(self) -> None:
        """No more records will come."""
        with self._condition:
            self._finished = True
            self._condition.notify_all()

    def abandon(self) -> None:
        """Stop without writing more."""
        with self._condition:
            self.abandoned = self._finished = True
            self._condition.notify_all()

    def fail(self, error: BaseException) -> None:
        """Take no more records, because of an error."""
        with self._condition:
            self.failure = error
            self._condition.notify_all()

    def refresh(self) -> None:
        """A command came: have the registry read."""
        with self._condition:
            self._refresh = True
            self._condition.notify_all()

    def notify(self) -> None:
        """Have those that wait check again."""
        with self._condition:
            self._condition.notify_all()

    def _full(self) -> bool:
        return self._records > PENDING_RECORDS or self._bytes > PENDING_BYTES
