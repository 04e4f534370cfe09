"""A driver whose JVM is gone, or hangs, ends with the reason, so that its supervisor starts it again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from tests.integration.conftest import Database
from tests.support.clock import LIMIT
from tests.support.reducer_drivers import REDUCERS, Drivers
from tests.support.stack import RunningStack
from tests.support.wait import eventually

from distributary.service import ExitCode
from distributary.stack.processes import wait_gone
from distributary.store.redis_writer import RedisWriter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 * LIMIT)]

SELDOM = (
    "-c",
    "import sys; from distributary.reducers import __main__ as reducers, driver; driver.LOOK = 7.0;"
    "sys.exit(reducers.main())",
)
"""Reducers whose driver looks around only every 7 s: what it notices sooner, it was woken for."""


async def running(driver: subprocess.Popen[bytes], store: RedisWriter) -> psutil.Process:
    """Wait until the driver's loop turns; return its JVM."""

    async def beats() -> int:
        return len([heartbeat for heartbeat in store.heartbeats() if heartbeat.id == str(driver.pid)])

    await eventually(beats, bool, 90)
    return next(one for one in psutil.Process(driver.pid).children() if one.name() == "java")


@pytest.mark.parametrize(
    ("number", "program", "code", "within", "words"),
    [
        (signal.SIGKILL, SELDOM, ExitCode.JVM_LOST, 4, "was killed by SIGKILL"),
        (signal.SIGSTOP, REDUCERS, ExitCode.JVM_HUNG, 14, "has not responded for 9 s"),
    ],
)
async def test_driver_ends_when_its_jvm_dies_or_hangs(
    stack: RunningStack,
    database: Database,
    tmp_path: Path,
    number: signal.Signals,
    program: Sequence[str],
    code: int,
    within: float,
    words: str,
) -> None:
    store = RedisWriter(database.url)
    store.define("none", "b", "")
    drivers = Drivers(stack.config.kafka.bootstrap_servers, database.url, tmp_path)
    try:
        driver = drivers.start(program)
        jvm = await running(driver, store)
        began = time.monotonic()
        os.kill(jvm.pid, number)
        assert await asyncio.to_thread(driver.wait, 60 * LIMIT) == code
        assert time.monotonic() - began < within * LIMIT
        assert f"Spark's JVM (pid {jvm.pid}) {words}" in drivers.log(0).read_text()
        # SIGKILL was sent; the kernel takes a moment to give a JVM's memory back.
        assert await wait_gone([jvm], 5 * LIMIT) == [], "one that hangs must not go on alone"
    finally:
        drivers.stop()
        store.close()
