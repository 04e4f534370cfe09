"""``distributary worker run``: checks the request, then runs a pool until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from distributary.errors import WorkerBusy
from distributary.kafka import group_admin
from distributary.kafka.admin import Cluster
from distributary.kafka.outgoing_record import ensure_dead_letter_topic
from distributary.kafka.topics import get_topic
from distributary.stack.processes import birth
from distributary.workers import pool_state
from distributary.workers.autoscaler import Autoscaler, WorkerLimits
from distributary.workers.lag_monitor import LagMonitor
from distributary.workers.pool_state import PoolState
from distributary.workers.record_handler import add_cwd_to_path, load_function
from distributary.workers.worker_pool import STEP_SECONDS, WorkerPool
from distributary.workers.worker_process import WorkerSpec

LAG_SECONDS = 1.0
"""How often the lag is read."""
GRACE = 30.0
"""Seconds that workers may take to complete the records that they have."""


def run_workers(
    cluster: Cluster,
    spec: WorkerSpec,
    limits: WorkerLimits,
    autoscaler: Autoscaler,
    data_dir: Path,
    name: str,
    report: Callable[[str], None],
    *,
    convention: str | None,
    force: bool = False,
    grace: float = GRACE,
) -> PoolState:
    """Work until SIGINT or SIGTERM, and return what was done.

    ``convention`` is ``naming.groups``; ``force`` skips it, and the check for members of other applications.
    Raises BadFunction, TopicMissing, NameRefused, GroupBusy, WorkerBusy, WorkerFailed.
    """
    add_cwd_to_path()
    load_function(spec.function)
    for topic in filter(None, (spec.topic, spec.to)):
        get_topic(cluster.admin, topic)
    if not force and (note := group_admin.check_group_free(cluster, spec.group, spec.client_id, convention)):
        report(f"note: {note}")
    ensure_dead_letter_topic(cluster.admin, spec.dead_letters)
    spec = msgspec.structs.replace(spec, owner=_owner(data_dir, name))
    state = _claim(data_dir, name, spec, limits)
    lag = LagMonitor(cluster, spec.topic, spec.group, earliest=spec.start == "earliest", interval=LAG_SECONDS)
    try:
        if limits.maximum > lag.partitions:
            report(f"{spec.topic} has {lag.partitions} partitions: more workers would have nothing to do")
        asyncio.run(
            _run_pool(
                spec=spec,
                limits=limits,
                autoscaler=autoscaler,
                lag=lag,
                state=state,
                data_dir=data_dir,
                report=report,
                grace=grace,
            )
        )
    finally:
        lag.stop()
        pool_state.remove_files(data_dir, name)
    return state


async def _run_pool(
    *,
    spec: WorkerSpec,
    limits: WorkerLimits,
    autoscaler: Autoscaler,
    lag: LagMonitor,
    state: PoolState,
    data_dir: Path,
    report: Callable[[str], None],
    grace: float,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pool = WorkerPool(spec, autoscaler, lag, limits, report)
    try:
        await _scale_until(stop, pool, lag, state, data_dir)
        report(f"stopping: {pool.workers} workers complete their records (Ctrl-C again: stop at once)")
        pool.drain()
        stop.clear()
        await _wait_until_drained(stop, pool, grace, report)
    finally:
        await pool.kill()
        _describe(state, pool, lag)


async def _scale_until(
    stop: asyncio.Event, pool: WorkerPool, lag: LagMonitor, state: PoolState, data_dir: Path
) -> None:
    written = None
    while not stop.is_set():
        request = pool_state.requested_scale(data_dir, state.name)
        if request is not None and request.id != state.request:
            state.request, state.minimum, state.maximum = request.id, request.minimum, request.maximum
            pool.limits = state.limits
        pool.step()
        _describe(state, pool, lag)
        if (current := msgspec.json.encode(state)) != written:
            pool_state.write_state(data_dir, state)
            written = current
        await _wait(stop, STEP_SECONDS)


async def _wait_until_drained(
    stop: asyncio.Event, pool: WorkerPool, grace: float, report: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    while pool.finishing:
        pool.step()
        await _wait(stop, STEP_SECONDS / 4)
        if stop.is_set() or loop.time() > deadline:
            report(f"{pool.finishing} workers are killed; their records are read again")
            return


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _describe(state: PoolState, pool: WorkerPool, lag: LagMonitor) -> None:
    state.workers, state.target, state.partitions, state.lag = (
        pool.workers,
        pool.target,
        lag.partitions,
        lag.lag,
    )
    state.done, state.dead, state.restarts = pool.done, pool.dead, pool.restarts


def _claim(data_dir: Path, name: str, spec: WorkerSpec, limits: WorkerLimits) -> PoolState:
    for one in pool_state.running_pools(data_dir):
        if one.name == name:
            raise WorkerBusy(
                f"worker {name!r} runs already (pid {one.pid})",
                hint=f"Scale it with: distributary worker scale {name} N, or give this one another --name",
            )
    pool_state.remove_files(data_dir, name)
    state = PoolState(
        name=name,
        pid=os.getpid(),
        birth=birth(os.getpid()),
        function=spec.function,
        topic=spec.topic,
        group=spec.group,
        minimum=limits.minimum,
        maximum=limits.maximum,
    )
    pool_state.write_state(data_dir, state)
    return state


def _owner(data_dir: Path, name: str) -> str:
    """Identifies a pool among those of one group on several machines, the same after a restart."""
    pool = f"{socket.gethostname()} {data_dir.absolute()} {name}"
    return hashlib.sha256(pool.encode()).hexdigest()[:12]
