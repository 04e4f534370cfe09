"""``stack.json``: what runs now, for `status` and others that look for the running stack.

It is replaced as a whole at each change, so a reader never sees half of it. After `up` was killed it still
stands there: `running` tells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import psutil

from distributary.stack import processes
from distributary.stack.atomic_files import replace

FILE = "stack.json"

Phase = Literal["waiting", "starting", "ready", "silent", "restarting", "failed", "stopping", "stopped"]


class PartState(msgspec.Struct):
    """One part. ``external`` parts are not ours: we only waited until they answered.

    ``restarted`` is when its process last died or was killed for its silence, by the wall clock.
    """

    name: str
    state: Phase = "waiting"
    pid: int | None = None
    birth: str | None = None
    restarts: int = 0
    restarted: float | None = None
    addresses: dict[str, str] = {}
    log: str = ""
    error: str = ""
    external: bool = False


class StackState(msgspec.Struct):
    """The stack: its id, the pid of its `up`, and its parts in the order they start.

    ``certificates`` are the files of those that its servers show, by which clients on this machine know them.
    """

    stack: str
    pid: int
    birth: str
    state: Phase = "starting"
    parts: list[PartState] = []
    addresses: dict[str, str] = {}
    certificates: list[str] = []

    def part(self, name: str) -> PartState:
        """The part of that name; KeyError when there is none."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)


def read(data_dir: Path) -> StackState | None:
    """What the folder's stack last said of itself; None when there is nothing readable."""
    try:
        return msgspec.json.decode((data_dir / FILE).read_bytes(), type=StackState)
    except (OSError, msgspec.DecodeError):
        return None


def write(data_dir: Path, state: StackState) -> None:
    """Replace what is there."""
    text = msgspec.json.format(msgspec.json.encode(state), indent=2).decode()
    replace(data_dir / FILE, text + "\n")


def running(data_dir: Path) -> StackState | None:
    """The stack that runs in this folder now; None when none does."""
    state = read(data_dir)
    if state is None or state.state in ("stopped", "failed"):
        return None
    return state if is_process(state.pid, state.birth) else None


def is_process(pid: int, birth: str) -> bool:
    """Whether that very process still runs, and not a later one with the same number."""
    try:
        same = processes.birth(pid) == birth
        return bool(same and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, OSError):
        return False
