"""kill -9 of each process under load: every row stays exact, nothing is lost, repeated or skipped.

The rows hold a sum and a count, which a lost or repeated record would spoil.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.clock import LIMIT
from tests.support.load import Load, Watcher
from tests.support.stack import AttachedStack, Feeding
from tests.support.stack_under_load import SETTINGS
from tests.support.up_command import Up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400 * LIMIT)]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    one = Up(tmp_path, SETTINGS)
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
async def feeding(up: Up) -> Feeding:
    one = Feeding(AttachedStack(up.folder), topic="events")
    await one.live("sums", "realtime")
    return one


async def worker_pid(feeding: Feeding) -> int:
    """Return the pid of a Python process that runs a reducer inside Spark, from its heartbeat."""
    reader = feeding.stack.reader()
    try:
        while True:
            beats = [
                json.loads(beat.stats) for beat in await reader.heartbeats() if beat.component == "reducer"
            ]
            if beats:
                return int(beats[0]["pid"])
            await asyncio.sleep(0.1)
    finally:
        await reader.close()


def seen(watcher: Watcher) -> int:
    """Return how many records the subscriber's rows count."""
    count: int = sum(row["count"] for row in watcher.rows.values())
    return count


async def flows_again(load: Load, watcher: Watcher, before: int = 0) -> float:
    """Wait until records acknowledged from now on reach the subscriber; return the seconds.

    ``before`` is the number of records written earlier.
    """
    began = time.monotonic()
    goal = before + len(load.acknowledged) + 100
    while seen(watcher) < goal:
        assert time.monotonic() - began < 120 * LIMIT, f"nothing flows ({watcher.faults[:3]})"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_rows_stay_exact_when_every_process_is_killed_under_load(up: Up, feeding: Feeding) -> None:
    stack = feeding.stack
    load = Load(stack, "events")
    load.start()
    took: dict[str, float] = {}
    async with Watcher("sums", stack.addresses["control"]) as watcher:
        await flows_again(load, watcher)
        for component in (
            "worker",
            "jvm",
            "reducers",
            "publisher-1",
            "control",
            "store",
            "kafka",
            "publisher-2",
            "reducers",
        ):
            pid = (
                await worker_pid(feeding)
                if component == "worker"
                else up.jvm()
                if component == "jvm"
                else up.pid(component)
            )
            os.kill(pid, signal.SIGKILL)
            took[component] = await flows_again(load, watcher)
        expected = load.stop()
        await feeding.rows_become("sums", expected, limit=60)
        # A new producer: one whose broker died twice may wait for long, and is not what is tested.
        load = Load(stack, "events")
        load.start()
        await flows_again(load, watcher, seen(watcher))
        up.kill()
        await asyncio.to_thread(up.start)
        took["up"] = await flows_again(load, watcher, sum(row["count"] for row in expected.values()))
        for key, row in load.stop().items():
            expected[key]["count"] += row["count"]
            expected[key]["total"] += row["total"]
        await feeding.rows_become("sums", expected, limit=60)
        await watcher.sees(expected, 30)
        assert watcher.faults == []
    print("seconds until live again:", {component: round(seconds, 1) for component, seconds in took.items()})
    left = [p for p in psutil.process_iter() if _of(p, up.folder)]
    up.stop()
    assert not [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def _of(process: psutil.Process, folder: Path) -> bool:
    try:
        return str(process.environ().get("DISTRIBUTARY_DATA_DIR", "")).startswith(str(folder))
    except (psutil.Error, OSError):
        return False
