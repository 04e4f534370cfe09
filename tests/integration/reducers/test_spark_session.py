"""What is done to Spark's JVM besides its settings."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
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

from distributary.config import Config
from distributary.model.build import Engine
from distributary.reducers import engine
from distributary.reducers.process_watch import DAEMON_MODULE
from distributary.reducers.spark_session import start_daemon


def test_spark_frees_no_buffer_that_is_written_to(spark: Any) -> None:
    """Spark's function that frees buffers does nothing; it would free them during writes (decision 16)."""
    class_of = spark._jvm.java.lang.Class.forName
    cleaner = class_of("org.apache.spark.storage.StorageUtils$").getDeclaredField("bufferCleaner")
    cleaner.setAccessible(True)
    buffer = spark._jvm.java.nio.ByteBuffer.allocate(1)
    assert cleaner.get(None).apply(buffer).equals(buffer), "it gives back what it is given, and no more"


def daemons(spark: Any) -> set[int]:
    """The processes that Spark forks its Python workers from."""

    def is_daemon(one: psutil.Process) -> bool:
        try:
            return DAEMON_MODULE in one.cmdline()
        except psutil.Error:  # the JVM runs small programs now and then
            return False

    jvm = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
    return {one.pid for one in jvm.children() if is_daemon(one)}


def test_daemon_that_is_started_ahead_is_that_of_real_time_mode(spark: Any) -> None:
    """Spark has one for each environment of tasks: another one would be of no use to the reducers."""

    def run(kind: Engine) -> None:
        session = spark.newSession()
        engine.set_batches(session, Config(), kind)
        session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()

    run(Engine.CATCH_UP)
    before = daemons(spark)
    start_daemon(spark, Config())
    ahead = daemons(spark) - before
    assert len(ahead) == 1
    run(Engine.REAL_TIME)
    run(Engine.CATCH_UP)
    assert daemons(spark) == before | ahead


def test_query_that_is_stopped_as_it_starts_ends_no_other_querys_workers(spark: Any, tmp_path: Path) -> None:
    """Spark ends its daemon for it, but not the workers of others (decision 17)."""
    context, release = spark.sparkContext, tmp_path / "release"

    def works(_: int) -> int:
        (tmp_path / f"works.{os.getpid()}").touch()
        while not release.exists():
            time.sleep(0.05)
        return os.getpid()

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
            until(lambda: any(tmp_path.glob("works.*")), "the other works")
            (mark,) = tmp_path.glob("works.*")
            daemon = psutil.Process(int(mark.suffix[1:])).ppid()
            before = daemons(spark)
            suspend(daemon)  # so that the next task waits for its worker
            try:
                starts = threads.submit(inheritable_thread_target(spark)(run), "starts", lambda one: one)
                until(lambda: active("starts"), "it starts")
                context.cancelJobGroup("starts")
                with pytest.raises(Exception, match="cancelled"):
                    starts.result(30 * LIMIT)
                until(lambda: daemons(spark) - before, "Spark has another daemon")
            finally:
                os.kill(daemon, signal.SIGCONT)
            assert run("later", lambda one: one) == [0], "there are new workers"
            assert not other.done()
        finally:
            release.touch()
        (worker,) = other.result(30 * LIMIT)
        assert psutil.Process(worker).ppid() == daemon, "it waits for its workers"


def test_process_without_the_secret_cannot_talk_to_the_driver(spark: Any) -> None:
    """Spark authenticates and encrypts its connections, with a secret of this start alone."""
    env = spark._jvm.org.apache.spark.SparkEnv.get()
    assert env.securityManager().isAuthenticationEnabled()
    assert env.securityManager().isEncryptionEnabled()
    assert len(env.securityManager().getSecretKey()) >= 32
    answer = called(int(spark.conf.get("spark.driver.port")))
    assert b"Unknown challenge message" in answer or b"SecurityException" in answer, answer


def called(port: int) -> bytes:
    """What the driver answers to a request without any authentication, as another user could send it."""
    body = b"\x00" * 16
    request = b"\x03" + struct.pack(
        ">qi", 1, len(body)
    )  # an RpcRequest: its number, and how long its body is
    with socket.create_connection(("127.0.0.1", port), 10 * LIMIT) as connection:
        connection.settimeout(10 * LIMIT)
        connection.sendall(struct.pack(">q", 8 + len(request) + len(body)) + request + body)
        return connection.recv(65536)


SECRETIVE = """
import sys
from pathlib import Path
import psutil
from distributary.config import load
from distributary.reducers.spark_session import spark_session
from distributary.setup import jars
spark = spark_session(load(Path(sys.argv[1]), {}), jars.ensure("spark"), java="")
jvm = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
conf = spark.sparkContext.getConf()
assert conf.get("spark.vendor.auth") == "hunter=2\\\\ \\u20ac", conf.get("spark.vendor.auth")
assert conf.get("spark.sql.shuffle.partitions") == "3"
assert spark.conf.get("spark.vendor.auth") == conf.get("spark.vendor.auth")
print(" ".join(jvm.cmdline()))
spark.stop()
"""


def test_secret_property_reaches_spark_and_is_on_no_command_line(tmp_path: Path) -> None:
    file = tmp_path / "distributary.toml"
    file.write_text(
        '[spark.properties]\n"spark.vendor.auth" = "hunter=2\\\\ \u20ac"\n'
        '"spark.sql.shuffle.partitions" = 3\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", SECRETIVE, str(file)],
        capture_output=True,
        text=True,
        timeout=90 * LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "org.apache.spark.deploy.SparkSubmit" in done.stdout
    assert "hunter" not in done.stdout
