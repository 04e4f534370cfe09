"""The process that Spark forks its Python workers from, with everything they need already imported.

PySpark's own daemon imports next to nothing, so each of a view's tasks would spend most of a second on the
same imports, and have its own copy of them in memory.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas  # noqa: F401  every worker of PySpark imports it
import pyarrow as pa
import pyspark.daemon
import pyspark.sql.conversion
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.worker
from pyspark.daemon import manager

import distributary.reducers.spark_task  # noqa: F401
from distributary.reducers.process_watch import DAEMON_HEARTBEAT
from distributary.service import Heartbeat


def flatten_struct(batch: pa.RecordBatch, column_index: int = 0) -> pa.RecordBatch:
    """Do what PySpark's function of this name does, in one call.

    PySpark creates a new schema for every batch; a batch is one record here, and that took a tenth of a
    worker's time.
    """
    return pa.RecordBatch.from_struct_array(batch.column(column_index))


class HeartbeatPoll:
    """The poll in which the daemon's loop waits, at most a second at a time: each turn is a heartbeat."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._poll = select.poll()
        self._touch = heartbeat.touch
        self.register = self._poll.register
        self.unregister = self._poll.unregister

    def poll(self, timeout: int) -> list[tuple[int, int]]:
        """Touch the heartbeat file, then wait."""
        self._touch()
        return self._poll.poll(timeout)


def add_heartbeat(prefix: str) -> None:
    """Make the daemon of this process touch a file, whose name ends with the process id."""
    heartbeat = Heartbeat(Path(f"{prefix}-{os.getpid()}"))
    heartbeat.touch()
    names = {name: getattr(select, name) for name in ("POLLIN", "POLLHUP", "select")}
    setattr(pyspark.daemon, "select", SimpleNamespace(poll=lambda: HeartbeatPoll(heartbeat), **names))  # noqa: B010


class PatientOs:
    """The module ``os`` for PySpark's daemon, except for how the daemon ends.

    PySpark's ends all its workers, those of every query. But Spark also ends its daemon, and starts another,
    when nothing is lost: a task that is interrupted while it waits for a worker is enough (decision 17). So
    workers may finish as long as Spark is there.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def kill(self, pid: int, number: int) -> None:
        """As ``os.kill``; to the whole group only when no worker is left, or Spark is gone."""
        while (pid, number) == (0, signal.SIGHUP) and os.getppid() == self._parent:
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            time.sleep(0.1)
        os.kill(pid, number)


setattr(pyspark.sql.conversion.ArrowBatchTransformer, "flatten_struct", staticmethod(flatten_struct))  # noqa: B010

if __name__ == "__main__":
    # What is here now stays for good: workers must neither scan it nor write to its pages.
    if os.environ.get(DAEMON_HEARTBEAT):
        add_heartbeat(os.environ[DAEMON_HEARTBEAT])
    setattr(pyspark.daemon, "os", PatientOs())  # noqa: B010
    gc.collect()
    gc.freeze()
    manager()
