"""What is done to Spark's JVM besides its settings."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.util import inheritable_thread_target
from tests.support.clock import LIMIT
from tests.support.processes import suspend

from distributary.reduce.daemonwatch import MODULE


def test_spark_does_not_free_a_buffer_under_the_one_who_writes_to_it(spark: Any) -> None:
    """What Spark frees buffers with does nothing: it would do so at once, whoever writes (decision 16)."""
    class_of = spark._jvm.java.lang.Class.forName
    cleaner = class_of("org.apache.spark.storage.StorageUtils$").getDeclaredField("bufferCleaner")
    cleaner.setAccessible(True)
    buffer = spark._jvm.java.nio.ByteBuffer.allocate(1)
    assert cleaner.get(None).apply(buffer).equals(buffer), "it gives back what it is given, and no more"


def test_a_query_that_is_stopped_as_it_starts_takes_nobody_along(spark: Any, tmp_path: Path) -> None:
    """Spark ends its daemon for it, but not the workers of others (decision 17)."""
    context, release = spark.sparkContext, tmp_path / "release"

    def works(_: int) -> int:
        (tmp_path / "works").touch()
        while not release.exists():
            time.sleep(0.05)
        return os.getpid()

    def is_daemon(one: psutil.Process) -> bool:
        try:
            return MODULE in one.cmdline()
        except psutil.Error:  # the JVM runs small programs now and then
            return False

    def daemons() -> list[int]:
        jvm = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
        return [one.pid for one in jvm.children() if is_daemon(one)]

    def until(ready: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 30 * LIMIT
        while not ready():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def run(group: str, work: Callable[[int], int]) -> list[int]:
        context.setJobGroup(group, group, interruptOnCancel=True)
        found: list[int] = context.parallelize([0], 1).map(work).collect()
        return found

    def active(group: str) -> bool:
        tracker = context.statusTracker()
        stages = [
            tracker.getStageInfo(stage)
            for job in tracker.getJobIdsForGroup(group)
            for stage in tracker.getJobInfo(job).stageIds
        ]
        return any(stage is not None and stage.numActiveTasks for stage in stages)

    with ThreadPoolExecutor(2) as threads:
        other = threads.submit(inheritable_thread_target(spark)(run), "other", works)
        try:
            until((tmp_path / "works").exists, "the other works")
            (daemon,) = daemons()
            suspend(daemon)  # so that the next task waits for its worker
            try:
                starts = threads.submit(inheritable_thread_target(spark)(run), "starts", lambda one: one)
                until(lambda: active("starts"), "it starts")
                context.cancelJobGroup("starts")
                with pytest.raises(Exception, match="cancelled"):
                    starts.result(30 * LIMIT)
                until(lambda: set(daemons()) - {daemon}, "Spark has another daemon")
            finally:
                os.kill(daemon, signal.SIGCONT)
            assert run("later", lambda one: one) == [0], "there are new workers"
            assert not other.done()
        finally:
            release.touch()
        (worker,) = other.result(30 * LIMIT)
        assert psutil.Process(worker).ppid() == daemon, "it waits for its workers"
