"""``stack.json`` describes what runs now, and a registry of the user names the folders of all running stacks.

It is replaced as a whole at each change, so a reader never sees half of it. When `up` was killed the file
remains, so use `running` to find out whether its stack still runs.
"""

from __future__ import annotations

import contextlib
import enum
import os
import tempfile
from pathlib import Path

import msgspec
import psutil

from distributary.config.private_files import private_folder, write_private
from distributary.stack import processes
from distributary.stack.data_dir import replace_file

FILE = "stack.json"
_PREFIX = "stack-"


class Phase(enum.StrEnum):
    """What a component, or the stack as a whole, is doing."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    """It runs, but gives no heartbeat."""
    RESTARTING = "restarting"
    FAILED = "failed"
    """It was given up."""
    STOPPING = "stopping"
    STOPPED = "stopped"


class ComponentState(msgspec.Struct):
    """One component.

    ``external`` ones are not started by the stack, which only waited until they responded. ``restarted`` is
    when its process last died or was killed for its silence, by the wall clock.
    """

    name: str
    state: Phase = Phase.WAITING
    pid: int | None = None
    birth: str | None = None
    restarts: int = 0
    restarted: float | None = None
    addresses: dict[str, str] = {}
    log: str = ""
    error: str = ""
    external: bool = False


class StackState(msgspec.Struct):
    """The stack: its id, the pid of its `up`, and its components in the order they start.

    ``certificates`` are the files of its servers' certificates, by which clients on this machine verify them.
    """

    stack: str
    pid: int
    birth: str
    state: Phase = Phase.STARTING
    components: list[ComponentState] = []
    addresses: dict[str, str] = {}
    certificates: list[str] = []

    def component(self, name: str) -> ComponentState:
        """The component of that name; KeyError when there is none."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)


def read(data_dir: Path) -> StackState | None:
    """The state that the folder's stack last wrote; None when nothing readable is there."""
    try:
        return msgspec.json.decode((data_dir / FILE).read_bytes(), type=StackState)
    except (OSError, msgspec.DecodeError):
        return None


def write(data_dir: Path, state: StackState) -> None:
    """Replace the file."""
    text = msgspec.json.format(msgspec.json.encode(state), indent=2).decode()
    replace_file(data_dir / FILE, text + "\n")


def running(data_dir: Path) -> StackState | None:
    """The stack that runs in this folder now; None when none does."""
    state = read(data_dir)
    if state is None or state.state in (Phase.STOPPED, Phase.FAILED):
        return None
    return state if is_process(state.pid, state.birth) else None


def is_process(pid: int, birth: str) -> bool:
    """Whether that very process still runs, and not a later one with the same pid."""
    try:
        same = processes.birth(pid) == birth
        return bool(same and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, OSError):
        return False


def registry_folder() -> Path:
    """The folder in which the stacks of this user register."""
    return Path(tempfile.gettempdir()) / f"distributary-{os.getuid()}"


def register(stack: str, data_dir: Path) -> None:
    """Register a running stack; an error in writing is ignored, since the stack runs without it."""
    with contextlib.suppress(OSError):
        if private_folder(registry_folder()):
            write_private(registry_folder() / f"{_PREFIX}{stack}", str(data_dir.absolute()))


def unregister(stack: str) -> None:
    """Remove the entry of a stack."""
    with contextlib.suppress(OSError):
        (registry_folder() / f"{_PREFIX}{stack}").unlink(missing_ok=True)


def all_running() -> list[Path]:
    """The data folders of the stacks that run now; entries of others are removed."""
    found = []
    try:
        entries = sorted(registry_folder().glob(f"{_PREFIX}*")) if private_folder(registry_folder()) else []
    except OSError:
        return []
    for entry in entries:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            data_dir = Path(entry.read_text(encoding="utf-8"))
            if running(data_dir) is not None:
                found.append(data_dir)
            else:
                entry.unlink(missing_ok=True)
    return found
