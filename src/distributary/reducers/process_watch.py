"""Watches what the driver depends on: Spark's JVM, the PySpark daemons, and its own loop.

Each is watched by a process that can restart it. The JVM: the driver ends without it, and the supervisor
starts both again. The daemons, which fork the Python workers: the driver kills one that hangs, and Spark
starts another on demand. The driver's loop: a watchdog thread ends the process when the loop hangs.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from distributary.service import ExitCode, describe_exit

log = logging.getLogger(__name__)

DAEMON_HEARTBEAT = "DISTRIBUTARY_DAEMON_HEARTBEAT_FILE"
"""The environment variable with the path prefix of the daemons' heartbeat files."""
DAEMON_MODULE = "distributary.reducers.pyspark_daemon"
DAEMON_SILENT, DAEMON_HUNG = 5, 10
"""After how many checks without a heartbeat, about one a second, a daemon is reported, and killed."""
LOOP_HUNG = 9.0
"""Seconds; less than `distributary up` waits, which could not name the cause."""
_STEP = 0.5


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
        """The JVM's name in messages."""
        return f"Spark's JVM (pid {self._process.pid})" if self._process is not None else "Spark's JVM"

    def check(self) -> None:
        """Call into the JVM; raises JvmLost when it is gone, and waits while it hangs."""
        from py4j.protocol import Py4JError

        code = self._process.poll() if self._process is not None else None
        if code is not None:
            raise JvmLost(f"{self.name} {describe_exit(code)}")
        try:
            self._system.nanoTime()
        except (Py4JError, OSError) as error:
            raise JvmLost(f"{self.name} is not responding: {error}") from None

    def on_exit(self, call: Callable[[], None]) -> None:
        """Call ``call``, in a thread of its own, as soon as the JVM's process ends."""
        process = self._process
        if process is None:
            return

        def wait() -> None:
            process.wait()
            call()

        threading.Thread(target=wait, name="jvm-exit", daemon=True).start()

    def kill(self) -> None:
        """Kill the JVM: one that hangs would go on if it woke up."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)


class DaemonWatch:
    """Watches the heartbeat files of the driver's PySpark daemons.

    A daemon talks only to the JVM, so its heartbeat is a file that it touches in the loop in which it waits
    for the JVM's requests (``pyspark_daemon.py``). Create this before the JVM starts: it passes on the path.

    Spark has a daemon for each environment that tasks require, which includes a worker's buffer size: so
    there is one for micro-batches and one for Real-Time Mode.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("pyspark-[0-9]*"):
            if not psutil.pid_exists(int(file.name.split("-")[1])):
                file.unlink(missing_ok=True)
        self._folder = folder
        self._prefix = f"pyspark-{os.getpid()}"
        # By file: its modification time, and for how many checks that has been the same.
        self._checked: dict[Path, tuple[int, int]] = {}

    def export(self) -> None:
        """Put the path prefix into the environment; each daemon appends its process id."""
        os.environ[DAEMON_HEARTBEAT] = str(self._folder / self._prefix)

    @property
    def silent(self) -> int:
        """For how many checks there was no heartbeat from some daemon."""
        return max((checks for _, checks in self._checked.values()), default=0)

    def check(self) -> bool:
        """Check every daemon and kill one that hangs. Return whether one is gone: start another then."""
        before, self._checked = self._checked, {}
        gone = False
        for file in self._folder.glob(f"{self._prefix}-*"):
            try:
                now, pid = file.stat().st_mtime_ns, int(file.name.rpartition("-")[2])
            except (OSError, ValueError):
                continue
            last, checks = before.get(file, (0, 0))
            checks = checks + 1 if now == last else 0
            if checks >= DAEMON_HUNG:
                self._kill(pid)
            if _is_daemon(pid):
                self._checked[file] = (now, checks)
            else:
                file.unlink(missing_ok=True)
                gone = True
        return gone

    def close(self) -> None:
        """Remove the files."""
        for file in self._folder.glob(f"{self._prefix}-*"):
            file.unlink(missing_ok=True)

    def _kill(self, pid: int) -> None:
        with suppress(psutil.Error):
            if _is_daemon(pid):
                log.warning("killing the PySpark daemon (pid %d): no heartbeat", pid)
                psutil.Process(pid).kill()
                psutil.Process(pid).wait(1)


def _is_daemon(pid: int) -> bool:
    """Whether the process is still the daemon, and not another that was given its id since."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and DAEMON_MODULE in process.cmdline()
    except psutil.Error:
        return False


class Watchdog:
    """Ends the process from a thread when a loop hangs, so that its supervisor starts it again.

    ``why`` names what the loop hangs at; ``before_exit`` is called first.
    """

    def __init__(
        self,
        why: Callable[[], str],
        before_exit: Callable[[], object] = lambda: None,
        *,
        hung: float = LOOP_HUNG,
        exit: Callable[[int], object] = os._exit,
    ) -> None:
        self._why = why
        self._before_exit = before_exit
        self._hung = hung
        self._exit = exit
        self._turns = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> Watchdog:
        """Begin to watch."""
        self._thread.start()
        return self

    def turn(self) -> None:
        """Note that the loop has turned."""
        self._turns += 1

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()

    def _run(self) -> None:
        # Counted in the thread's own steps: a process that was suspended as a whole is not hung afterwards.
        turns, silent = self._turns, 0.0
        while not self._stopping.wait(_STEP):
            if self._turns != turns:
                turns, silent = self._turns, 0.0
                continue
            silent += _STEP
            if silent >= self._hung:
                log.critical("%s for %g s: this process ends, to be started again", self._why(), silent)
                self._before_exit()
                self._exit(ExitCode.JVM_HUNG)
                return
