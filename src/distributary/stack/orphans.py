"""Processes that a killed `up` left running: found by their marks and by its recorded pids, and ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil

from distributary.stack import processes, stack_file

GRACE = 8.0
"""Seconds for Kafka and the store to write their data."""


def find(stack: str, data_dir: Path) -> list[psutil.Process]:
    """The processes of this stack that still run, each once."""
    found = {process.pid: process for process in processes.marked(stack)}
    state = stack_file.read(data_dir)
    for component in state.components if state else []:
        pid, birth = component.pid, component.birth
        if pid is None or birth is None or pid in found:
            continue
        if stack_file.is_process(pid, birth) and not _is_marked_by_another(pid, stack):
            with contextlib.suppress(psutil.Error):
                found[pid] = psutil.Process(pid)
    return list(found.values())


async def end(stack: str, data_dir: Path, report: Callable[[str], None] = lambda line: None) -> int:
    """End them, Kafka and the store last; return how many there were. Requires the folder's lock."""
    left = find(stack, data_dir)
    if not left:
        return 0
    report(f"ending {len(left)} processes that an earlier run left behind")
    holding_data = [process for process in left if _component(process) in ("kafka", "store")]
    await processes.end([process for process in left if process not in holding_data], GRACE / 2)
    await processes.end(holding_data, GRACE)
    await processes.kill(processes.marked(stack))  # started while the others ended
    return len(left)


def _component(process: psutil.Process) -> str | None:
    try:
        return dict(process.environ()).get(processes.COMPONENT)
    except (psutil.Error, OSError):
        return None


def _is_marked_by_another(pid: int, stack: str) -> bool:
    """Whether its environment names another stack.

    One that names none proves nothing: a program may overwrite it, as servers do that set their title.
    """
    try:
        return psutil.Process(pid).environ().get(processes.STACK) not in (None, stack)
    except (psutil.Error, OSError):
        return False
