"""The driver's look at the PySpark daemon, which forks the Python workers.

The daemon speaks to nobody but the JVM, so its heartbeat is a file, which it moves in the loop in which it
waits for what the JVM wants (``daemon.py``). One that hangs is killed, and Spark starts another on demand.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

ENV = "DISTRIBUTARY_DAEMON_HEARTBEAT_FILE"
SILENT, HUNG = 5, 10
"""After how many looks, about one a second, it is said to be silent, and is killed."""
MODULE = "distributary.reduce.daemon"


class DaemonWatch:
    """Looks at one file; make it before the JVM is started, which hands the file's name on."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("pyspark-[0-9]*"):
            if not psutil.pid_exists(int(left.name.rpartition("-")[2])):
                left.unlink(missing_ok=True)
        self._file = folder / f"pyspark-{os.getpid()}"
        self._last = 0
        self.silent = 0
        """For how many looks there was no sign of life."""

    def announce(self) -> None:
        """Tell the processes to come where the file is."""
        os.environ[ENV] = str(self._file)

    def look(self) -> bool:
        """Count a look; kill a daemon that hangs. True when there was one, and it is gone: start another."""
        try:
            now, pid = self._file.stat().st_mtime_ns, int(self._file.read_text() or 0)
        except (OSError, ValueError):
            now, pid = 0, 0
        if now != self._last or not pid:
            self._last, self.silent = now, 0
            return False
        self.silent += 1
        if self.silent >= HUNG:
            self._kill(pid)
        if _runs(pid):
            return False
        self._file.unlink(missing_ok=True)
        self._last, self.silent = 0, 0
        return True

    def close(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)

    def _kill(self, pid: int) -> None:
        with suppress(psutil.Error):
            if _runs(pid):
                log.warning("the PySpark daemon (pid %d) gave no sign of life: it is killed", pid)
                psutil.Process(pid).kill()
                psutil.Process(pid).wait(1)


def _runs(pid: int) -> bool:
    """Whether it is still the daemon, and not somebody who was given its number since."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and MODULE in process.cmdline()
    except psutil.Error:
        return False
