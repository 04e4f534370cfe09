"""Find and end the processes of a stack: by the marks in their environment, never by name.

A component's descendants leave its process group and outlive it (Spark's JVM and Python workers do both),
so neither groups nor parentage are enough; but all inherit ``DISTRIBUTARY_STACK`` and
``DISTRIBUTARY_COMPONENT``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

STACK = "DISTRIBUTARY_STACK"
COMPONENT = "DISTRIBUTARY_COMPONENT"

_POLL_SECONDS = 0.02


def marked(stack: str, component: str | None = None) -> list[psutil.Process]:
    """Every living process of the stack (or of one of its components) but this one and its ancestors."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        with contextlib.suppress(psutil.Error, OSError):
            env = process.environ()
            if env.get(STACK) == stack and component in (None, env.get(COMPONENT)) and alive(process):
                found.append(process)
    return found


def birth(pid: int) -> str:
    """A string that differs for every process that ever had this pid, whatever happens to the clock.

    Raises psutil.NoSuchProcess.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except FileNotFoundError:  # not Linux, where the kernel records the time itself, or gone
        return str(psutil.Process(pid).create_time())
    ticks = stat.rpartition(")")[2].split()[19]  # since the machine was started
    return f"{boot}:{ticks}"


def lower_priority(pid: int, nice: int) -> None:
    """Let a process, and what it starts, yield the processors to others when they are short."""
    with contextlib.suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, pid, nice)


def tree(pid: int) -> list[psutil.Process]:
    """The process and all that descend from it now."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def alive(process: psutil.Process) -> bool:
    """Whether it still runs: one that only waits to be reaped does not."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def end(processes: Iterable[psutil.Process], grace: float) -> None:
    """SIGTERM to each; after ``grace`` seconds SIGKILL to those that are left; return when all are gone."""
    left = list(processes)
    _signal(left, kill=False)
    left = await wait_gone(left, grace)
    await kill(left)


async def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to each; return when all are gone."""
    left = list(processes)
    _signal(left, kill=True)
    await wait_gone(left, 5.0)  # only a process stuck in the kernel takes longer


async def wait_gone(processes: Iterable[psutil.Process], limit: float) -> list[psutil.Process]:
    """Wait until they are gone; return those that are not after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    left = list(_living(processes))
    while left and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        left = list(_living(left))
    return left


def _living(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    return (process for process in processes if alive(process))


def _signal(processes: Iterable[psutil.Process], *, kill: bool) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # psutil checks that the pid is still the same process
            if kill:
                process.kill()
            else:
                process.terminate()
