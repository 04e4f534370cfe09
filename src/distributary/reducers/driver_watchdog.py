"""Ends the driver's process when its loop does not turn, so that whoever started it starts it again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from distributary.service import ExitCode

log = logging.getLogger(__name__)

HUNG = 9.0
"""Seconds; less than `distributary up` waits, which could not say why."""
_STEP = 0.5


class Watchdog:
    """Watches one loop from a thread. ``why`` says what it hangs at; ``last`` is done before the end."""

    def __init__(
        self,
        why: Callable[[], str],
        last: Callable[[], None] = lambda: None,
        *,
        hung: float = HUNG,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._why = why
        self._last = last
        self._hung = hung
        self._leave = leave
        self._turns = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> Watchdog:
        """Begin to watch."""
        self._thread.start()
        return self

    def turn(self) -> None:
        """Say that the loop turns."""
        self._turns += 1

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def _run(self) -> None:
        # Counted in steps of our own: a process that was stopped as a whole is not hung when it goes on.
        seen, silent = self._turns, 0.0
        while not self._stopping.wait(_STEP):
            if self._turns != seen:
                seen, silent = self._turns, 0.0
                continue
            silent += _STEP
            if silent >= self._hung:
                log.critical("%s for %g s: this process ends, to be started again", self._why(), silent)
                self._last()
                self._leave(ExitCode.JVM_HUNG)
                return
