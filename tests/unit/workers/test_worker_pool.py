"""A pool of processes: counted over restarts, scaled, drained, and ended when a worker cannot work."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import psutil
import pytest
from tests.support.clock import LIMIT

from distributary.errors import WorkerFailed
from distributary.stack.component import Launch
from distributary.workers.autoscaler import Autoscaler, WorkerLimits
from distributary.workers.worker_pool import PoolWorker, WorkerPool
from distributary.workers.worker_process import WorkerSpec

SPEC = WorkerSpec(function="no_such_module:f", topic="t", group="g", properties={})
WORKER = """
import json, signal, sys
spec = json.loads(sys.stdin.readline())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(json.dumps({"done": 3, "dead": 1}), flush=True)
print("not progress", flush=True)
signal.pause()
"""


@dataclass
class KnownLag:
    lag: int | None = 0
    partitions: int = 4


class Pool(WorkerPool):
    """A pool whose lines are collected."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        super().__init__(SPEC, Autoscaler(), KnownLag(), WorkerLimits(2, 2), self.lines.append)

    async def until(self, ready: Callable[[], bool]) -> None:
        async with asyncio.timeout(20 * LIMIT):
            while not ready():
                self.step()
                await asyncio.sleep(0.01)

    def pids(self) -> list[int]:
        pids = [one.keeper.state.pid for one in self._workers.values()]
        return [pid for pid in pids if pid is not None]


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    one = Pool()
    yield one
    await one.kill()


@pytest.fixture
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = PoolWorker._launch

    def launch(self: PoolWorker) -> Launch:
        real = counted(self)
        return Launch(argv=[sys.executable, "-c", WORKER], env=real.env, stdin=real.stdin)

    monkeypatch.setattr(PoolWorker, "_launch", launch)


@pytest.mark.usefixtures("fake_worker")
async def test_pool_counts_records_over_restarts(pool: Pool) -> None:
    await pool.until(lambda: (pool.workers, pool.done, pool.dead) == (2, 6, 2))
    killed = pool.pids()[0]
    os.kill(killed, 9)
    await pool.until(lambda: (pool.workers, pool.done, pool.restarts) == (2, 9, 1))
    assert killed not in pool.pids()
    assert pool.lines[-1] == "worker 0 was killed by SIGKILL; restarting it now"


@pytest.mark.usefixtures("fake_worker")
async def test_pool_stops_surplus_workers_and_keeps_their_counts(pool: Pool) -> None:
    await pool.until(lambda: pool.done == 6)
    pool.limits = WorkerLimits(1, 1)
    await pool.until(lambda: (pool.workers, pool.finishing) == (1, 0))
    assert pool.done == 6
    pids = pool.pids()
    pool.drain()
    await pool.until(lambda: pool.finishing == 0)
    assert (pool.workers, pool.done, pool.dead, pool.restarts) == (0, 6, 2, 0)
    assert not any(psutil.pid_exists(pid) for pid in pids)


async def test_pool_fails_when_a_worker_cannot_work(pool: Pool) -> None:
    with pytest.raises(WorkerFailed, match=r"worker \d of group g cannot work \(ended with exit code 3\)"):
        await pool.until(lambda: False)
