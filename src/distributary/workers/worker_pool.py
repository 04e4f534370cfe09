"""A pool of worker processes: as many as the autoscaler decides, each kept running by a process keeper."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from distributary.errors import WorkerFailed
from distributary.stack.component import Component, Event, EventKind, Launch
from distributary.stack.process_keeper import Keeper, Policy
from distributary.stack.stack_file import Phase
from distributary.workers.autoscaler import Autoscaler, WorkerLimits
from distributary.workers.worker_process import WorkerSpec

log = logging.getLogger(__name__)

STEP_SECONDS = 0.2
"""The pause between two steps of a pool."""
POLICY = Policy(immediate=0, first=0.5, longest=30.0, healthy=20.0, attempts=5)
"""A worker that did something, or ran for 20 s, is restarted at once. If none ever did anything, five failed
starts in a row of one are the end of the pool."""


class Lag(Protocol):
    """What is known of the records to process."""

    lag: int | None
    partitions: int


class PoolWorker:
    """One worker of a pool: its processes, one after the other, and how many records they did."""

    def __init__(
        self,
        slot: int,
        mark: str,
        spec: WorkerSpec,
        proven: Callable[[], bool],
        report: Callable[[str], None],
    ) -> None:
        """``mark`` is of this worker alone. ``proven``: whether any worker has done something."""
        self.slot = slot
        self._spec = msgspec.json.encode(msgspec.structs.replace(spec, slot=slot)) + b"\n"
        self._report = report
        self._done = self._dead = 0
        """Of the present process."""
        self._earlier_done = self._earlier_dead = 0
        component = Component(
            name=f"worker {slot}",
            log=None,
            launch=self._launch,
            take_line=self._take_line,
            useful=lambda: self._done > 0,
            proven=proven,
        )
        self.keeper = Keeper(component, mark, self._on_event, lambda: None, POLICY)
        self.keeper.start()

    @property
    def done(self) -> int:
        """Records that were done."""
        return self._earlier_done + self._done

    @property
    def dead(self) -> int:
        """Records of them that became dead letters."""
        return self._earlier_dead + self._dead

    @property
    def running(self) -> bool:
        """Whether a process runs now, rather than waiting for a restart."""
        return self.keeper.state.pid is not None

    def _launch(self) -> Launch:
        self._earlier_done, self._earlier_dead = self.done, self.dead
        self._done = self._dead = 0
        argv = [sys.executable, "-m", "distributary.workers"]
        # Files that the user's function creates are the user's affair.
        return Launch(argv=argv, env=dict(os.environ), stdin=self._spec, private=False)

    def _take_line(self, line: bytes) -> bool:
        try:
            progress = json.loads(line)
            self._done, self._dead = int(progress["done"]), int(progress["dead"])
        except (ValueError, KeyError, TypeError):
            log.debug("a worker printed %r", line)
        return True

    def _on_event(self, event: Event) -> None:
        if event.kind == EventKind.DIED:
            self._report(f"{event.component} {event.message}")


class WorkerPool:
    """For one event loop: call `step` again and again. It ends by `drain`, or by `kill`."""

    def __init__(
        self,
        spec: WorkerSpec,
        autoscaler: Autoscaler,
        lag: Lag,
        limits: WorkerLimits,
        report: Callable[[str], None],
    ) -> None:
        self.limits = limits
        self.target = 0
        """How many workers there should be."""
        self._spec = spec
        self._autoscaler = autoscaler
        self._lag = lag
        self._report = report
        self._workers: dict[int, PoolWorker] = {}
        """By slot."""
        self._stopping: dict[asyncio.Task[None], PoolWorker] = {}
        """Workers that complete the records that they have."""
        self._stopped_done = self._stopped_dead = self._stopped_restarts = 0
        self._serials = itertools.count()
        self._draining = False

    @property
    def workers(self) -> int:
        """How many run now."""
        return sum(one.running for one in self._workers.values())

    @property
    def finishing(self) -> int:
        """How many complete the records that they have, and then end."""
        return len(self._stopping)

    @property
    def done(self) -> int:
        """Records that were done."""
        return self._stopped_done + sum(one.done for one in self._all())

    @property
    def dead(self) -> int:
        """Records of them that became dead letters."""
        return self._stopped_dead + sum(one.dead for one in self._all())

    @property
    def restarts(self) -> int:
        """Workers that died and were restarted."""
        return self._stopped_restarts + sum(one.keeper.state.restarts for one in self._all())

    def step(self) -> None:
        """Start and stop workers as the lag requires; raises WorkerFailed when one cannot work."""
        for task in [one for one in self._stopping if one.done()]:
            self._count(self._stopping.pop(task))
        if self._draining:
            return
        for worker in self._workers.values():
            if worker.keeper.state.state == Phase.FAILED:
                raise WorkerFailed(
                    f"worker {worker.slot} of group {self._spec.group} cannot work "
                    f"({worker.keeper.state.error})",
                    hint="Its errors are printed above",
                )
        lag, partitions = self._lag.lag, self._lag.partitions
        target = self._autoscaler.decide(time.monotonic(), lag, len(self._workers), partitions, self.limits)
        if target != self.target:
            shown = "lag unknown" if lag is None else f"lag {lag:,}"
            self._report(f"{target} workers ({shown}, {partitions} partitions)")
            self.target = target
        for slot in [slot for slot in self._workers if slot >= target]:
            self._stop(self._workers.pop(slot))
        for slot in range(target):
            if slot not in self._workers:
                self._workers[slot] = self._start(slot)

    def drain(self) -> None:
        """Let all complete the records that they have; call `step` until ``finishing`` is 0."""
        self._draining = True
        for worker in self._workers.values():
            self._stop(worker)
        self._workers.clear()

    async def kill(self) -> None:
        """End all at once; the records that they had are read again by others."""
        self._draining = True
        workers = list(self._all())
        for task in self._stopping:
            task.cancel()
        await asyncio.gather(*self._stopping, return_exceptions=True)
        await asyncio.gather(*(one.keeper.stop(0.0) for one in workers), return_exceptions=True)
        for worker in workers:
            self._count(worker)
        self._workers.clear()
        self._stopping.clear()

    def _all(self) -> list[PoolWorker]:
        return [*self._workers.values(), *self._stopping.values()]

    def _start(self, slot: int) -> PoolWorker:
        # A worker that is still finishing may have the same slot, so the slot alone does not mark a process.
        mark = f"workers-{os.getpid()}-{next(self._serials)}"
        return PoolWorker(slot, mark, self._spec, lambda: self.done > 0, self._report)

    def _stop(self, worker: PoolWorker) -> None:
        self._stopping[asyncio.create_task(worker.keeper.stop())] = worker

    def _count(self, worker: PoolWorker) -> None:
        self._stopped_done += worker.done
        self._stopped_dead += worker.dead
        self._stopped_restarts += worker.keeper.state.restarts
