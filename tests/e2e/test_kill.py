"""kill -9 of each process under load: every row exact, nothing lost, nothing repeated, no gap unseen.

The rows hold a sum and a count, which a lost or repeated record would spoil.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.clock import LIMIT
from tests.support.load import Load, Watcher
from tests.support.stack import AttachedStack, Feeding

SETTINGS = """
[spark]
batch = "60 s"

[publisher]
processes = 2

[[feeds]]
name = "events"
topic = "events"
create = true
partitions = 2

[[views]]
name = "sums"
feed = "events"
reduce = "aggregate"
aggregates = { k = "last(k)", count = "count()", total = "sum(n)" }
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Up:
    """``distributary up`` as a user starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "distributary.toml").write_text(SETTINGS)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "distributary.cli", "up"]
        with (self.folder / "up.log").open("ab") as log:
            self._process = subprocess.Popen(argv, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + 120 * LIMIT
        while self.state() != "ready":
            assert self._process.poll() is None, (self.folder / "up.log").read_text()
            assert time.monotonic() < deadline, (self.folder / "up.log").read_text()
            time.sleep(0.1)

    def state(self) -> str:
        found = self._read()
        mine = self._process is not None and found.get("pid") == self._process.pid
        ready = mine and all(part["state"] == "ready" for part in found["parts"]) and len(found["parts"]) == 7
        return "ready" if ready else "starting"

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / ".distributary" / "stack.json").read_text())
            return found
        except (OSError, ValueError):
            return {}

    def pid(self, part: str) -> int:
        pids = {one["name"]: one["pid"] for one in self._read()["parts"]}
        pid: int = pids[part]
        return pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30 * LIMIT)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    one = Up(tmp_path)
    one.start()
    yield one
    one.stop()


@pytest.fixture
async def feeding(up: Up) -> Feeding:
    one = Feeding(AttachedStack(up.folder), topic="events")
    await one.live("sums", "realtime")
    return one


async def worker_pid(feeding: Feeding) -> int:
    """A Python process that runs a reducer inside Spark, by its own word."""
    reader = feeding.stack.reader()
    try:
        while True:
            beats = [json.loads(beat.stats) for beat in await reader.beats() if beat.part == "reducer"]
            if beats:
                return int(beats[0]["pid"])
            await asyncio.sleep(0.1)
    finally:
        await reader.close()


def seen(watcher: Watcher) -> int:
    """How many records the subscriber's rows count."""
    count: int = sum(row["count"] for row in watcher.rows.values())
    return count


async def flows_again(load: Load, watcher: Watcher, before: int = 0) -> float:
    """Wait until records that were acknowledged from now on reach the subscriber; return the seconds.

    ``before`` is how many others had written.
    """
    began = time.monotonic()
    goal = before + len(load.acknowledged) + 100
    while seen(watcher) < goal:
        assert time.monotonic() - began < 120 * LIMIT, f"nothing flows ({watcher.faults[:3]})"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_every_process_may_be_killed_under_load(up: Up, feeding: Feeding) -> None:
    stack = feeding.stack
    load = Load(stack, "events")
    load.start()
    took: dict[str, float] = {}
    async with Watcher("sums", stack.addresses["control"]) as watcher:
        await flows_again(load, watcher)
        for part in (
            "worker",
            "reducers",
            "publisher-1",
            "control",
            "store",
            "kafka",
            "publisher-2",
            "reducers",
        ):
            pid = await worker_pid(feeding) if part == "worker" else up.pid(part)
            os.kill(pid, signal.SIGKILL)
            took[part] = await flows_again(load, watcher)
        expected = load.stop()
        await feeding.rows_become("sums", expected, limit=60)
        # Another producer: one that met two deaths of its broker may wait for long, and is not ours.
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
    print("seconds until live again:", {part: round(seconds, 1) for part, seconds in took.items()})
    left = [p for p in psutil.process_iter() if _of(p, up.folder)]
    up.stop()
    assert not [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def _of(process: psutil.Process, folder: Path) -> bool:
    try:
        return str(process.environ().get("DISTRIBUTARY_DATA_DIR", "")).startswith(str(folder))
    except (psutil.Error, OSError):
        return False
