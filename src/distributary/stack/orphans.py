"""What a killed `up` left running: found by its marks and by the pids it wrote down, and ended kindly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil

from distributary.stack import processes, stack_file

GRACE = 8.0
"""Seconds for Kafka and the store to write what they hold."""


def find(stack: str, data_dir: Path) -> list[psutil.Process]:
    """The processes of this stack that still run, each once."""
    found = {process.pid: process for process in processes.marked(stack)}
    known = stack_file.read(data_dir)
    for part in known.parts if known else []:
        if part.pid is None or part.birth is None or part.pid in found:
            continue
        if stack_file.is_process(part.pid, part.birth) and not _of_another(part.pid, stack):
            with contextlib.suppress(psutil.Error):
                found[part.pid] = psutil.Process(part.pid)
    return list(found.values())


async def clear(stack: str, data_dir: Path, say: Callable[[str], None] = lambda line: None) -> int:
    """End them, the parts that keep data last; return how many there were. Only for who holds the lock."""
    left = find(stack, data_dir)
    if not left:
        return 0
    say(f"ending {len(left)} processes that an earlier run left behind")
    keepers = [process for process in left if _part(process) in ("kafka", "store")]
    await processes.end([process for process in left if process not in keepers], GRACE / 2)
    await processes.end(keepers, GRACE)
    await processes.kill(processes.marked(stack))  # born while the others ended
    return len(left)


def _part(process: psutil.Process) -> str | None:
    try:
        return dict(process.environ()).get(processes.PART)
    except (psutil.Error, OSError):
        return None


def _of_another(pid: int, stack: str) -> bool:
    """Whether its environment names another stack. One that names none proves nothing: a program may write
    over it, as servers do that set their title."""
    try:
        return psutil.Process(pid).environ().get(processes.STACK) not in (None, stack)
    except (psutil.Error, OSError):
        return False
