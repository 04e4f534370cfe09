"""The driver's look at the PySpark daemons, which fork the Python workers.

A daemon speaks to nobody but the JVM, so its heartbeat is a file, which it touches in the loop in which it
waits for the JVM's requests (``pyspark_daemon.py``). One that hangs is killed, and Spark starts another on
demand.
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
MODULE = "distributary.reducers.pyspark_daemon"


class DaemonWatch:
    """Looks at the files of the driver's daemons; make it before the JVM starts, which hands on their name.

    Spark has a daemon for each environment that tasks want, and how much a worker buffers is part of that: so
    there is one for a backlog and one for Real-Time Mode.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("pyspark-[0-9]*"):
            if not psutil.pid_exists(int(left.name.split("-")[1])):
                left.unlink(missing_ok=True)
        self._folder = folder
        self._prefix = f"pyspark-{os.getpid()}"
        self._seen: dict[Path, tuple[int, int]] = {}  # the time of each file, and how often it was the same

    def announce(self) -> None:
        """Tell the processes to come how their files begin; behind it each writes its own number."""
        os.environ[ENV] = str(self._folder / self._prefix)

    @property
    def silent(self) -> int:
        """For how many looks there was no sign of life of some daemon."""
        return max((looks for _, looks in self._seen.values()), default=0)

    def look(self) -> bool:
        """Count a look; kill a daemon that hangs. True when one is gone: start another."""
        before, self._seen = self._seen, {}
        gone = False
        for file in self._folder.glob(f"{self._prefix}-*"):
            try:
                now, pid = file.stat().st_mtime_ns, int(file.name.rpartition("-")[2])
            except (OSError, ValueError):
                continue
            last, looks = before.get(file, (0, 0))
            looks = looks + 1 if now == last else 0
            if looks >= HUNG:
                self._kill(pid)
            if _runs(pid):
                self._seen[file] = (now, looks)
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
