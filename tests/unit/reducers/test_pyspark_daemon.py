"""What the workers' process puts in the place of PySpark's own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql.conversion import ArrowBatchTransformer
from tests.support.clock import LIMIT

THEIRS = ArrowBatchTransformer.flatten_struct


def test_a_batch_is_flattened_as_pyspark_does_it() -> None:
    records = pa.array([b"one", None, b"", None], pa.binary())
    numbers = pa.array([1, None, 3, None], pa.int32())
    batch = pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays([records, numbers], ["record", "n"])], ["_0"]
    )

    from distributary.reducers.pyspark_daemon import flatten_struct

    for sliced in (batch, batch.slice(1, 2), batch.slice(0, 0)):
        ours = flatten_struct(sliced)
        assert ours.equals(THEIRS(sliced))
        assert ours.schema.equals(THEIRS(sliced).schema)


def test_workers_use_our_flatten_struct() -> None:
    """In a process of its own, as they have it."""
    code = (
        "import distributary.reducers.pyspark_daemon as ours, pyspark.worker as worker;"
        "assert worker.ArrowBatchTransformer.flatten_struct is ours.flatten_struct"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_workers_find_pandas_imported() -> None:
    """PySpark has each of them import it, which takes as long as all else that a worker does first."""
    code = "import sys, distributary.reducers.pyspark_daemon; assert 'pandas' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


SPARK = """
import subprocess, sys
daemon = subprocess.Popen(
    [sys.executable, "-m", "distributary.reducers.pyspark_daemon", "pyspark.worker"], stdin=subprocess.PIPE
)
print(daemon.pid, flush=True)
sys.stdin.read()
daemon.terminate()
daemon.stdin.close()
daemon.wait()
"""
"""Starts a daemon, and ends it as Spark does when its own standard input ends."""


def until(ready: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30 * LIMIT
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


@pytest.mark.parametrize("spark_dies", [False, True])
def test_workers_outlive_their_daemon_but_not_spark(tmp_path: Path, spark_dies: bool) -> None:
    env = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(tmp_path),
    }
    with (
        subprocess.Popen(
            [sys.executable, "-c", SPARK], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as spark,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        assert spark.stdin is not None
        assert spark.stdout is not None
        daemon = int(spark.stdout.readline())
        until(lambda: list(tmp_path.glob(".*.sock")), "the daemon listens")
        (path,) = tmp_path.glob(".*.sock")
        connection.connect(str(path))
        worker = int.from_bytes(connection.recv(4), "big")
        try:
            spark.stdin.close()
            until(lambda: not path.exists(), "it takes no more work")
            assert runs(worker)
            if spark_dies:
                spark.kill()
            else:
                assert runs(daemon)
                connection.close()
            until(lambda: not runs(worker), "the worker ends")
            until(lambda: not runs(daemon), "the daemon ends")
        finally:
            for pid in (worker, daemon):
                if runs(pid):
                    os.kill(pid, signal.SIGKILL)
