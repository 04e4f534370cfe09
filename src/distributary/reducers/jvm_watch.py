"""Whether Spark's JVM still works: the driver is nothing without it, and must not live on as if it were."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributary.model.exitcode import describe_exit

log = logging.getLogger(__name__)


class JvmLost(Exception):
    """Spark's JVM is gone, and with it every query: only a new process helps."""


class Jvm:
    """The JVM behind a Spark session."""

    def __init__(self, spark: Any) -> None:
        gateway = spark.sparkContext._gateway
        self._process = getattr(gateway, "proc", None)
        self._system = gateway.jvm.java.lang.System

    @property
    def name(self) -> str:
        """For messages."""
        return f"Spark's JVM (pid {self._process.pid})" if self._process is not None else "Spark's JVM"

    def check(self) -> None:
        """Call into the JVM and come back; raises JvmLost when it is gone, and waits while it hangs."""
        from py4j.protocol import Py4JError

        code = self._process.poll() if self._process is not None else None
        if code is not None:
            raise JvmLost(f"{self.name} {describe_exit(code)}")
        try:
            self._system.nanoTime()
        except (Py4JError, OSError) as error:
            raise JvmLost(f"{self.name} does not answer: {error}") from None

    def when_gone(self, call: Callable[[], None]) -> None:
        """Have ``call`` called as soon as its process ends, in a thread of its own."""
        process = self._process
        if process is None:
            return

        def wait() -> None:
            process.wait()
            call()

        threading.Thread(target=wait, name="jvm-exit", daemon=True).start()

    def kill(self) -> None:
        """End it at once: one that hangs would go on when it wakes."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
