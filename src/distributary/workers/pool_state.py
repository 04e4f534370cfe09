"""What a crew of workers says of itself, and what it is asked: small files in the data folder.

``workers/NAME.json`` is the supervisor's alone. ``workers/NAME.wanted`` is what somebody asks for: the
supervisor looks there, and says in its own file which wish it follows.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import msgspec

from distributary.config.problems import nearest
from distributary.errors import WorkerMissing
from distributary.stack.data_dir import replace_file
from distributary.stack.stack_file import is_process

FOLDER = "workers"


class CrewState(msgspec.Struct):
    """A crew; ``birth`` tells when its supervisor's process began, ``wish`` the number of the last wish."""

    name: str
    pid: int
    birth: str
    function: str
    topic: str
    group: str
    least: int
    most: int
    workers: int = 0
    wanted: int = 0
    partitions: int = 0
    lag: int | None = None
    done: int = 0
    dead: int = 0
    restarts: int = 0
    wish: str = ""


class Wish(msgspec.Struct):
    """What a crew is asked to be."""

    id: str
    least: int
    most: int


def write_state(data_dir: Path, state: CrewState) -> None:
    """Replace what a crew said before."""
    folder = data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(_path(data_dir, state.name), msgspec.json.encode(state).decode() + "\n")


def forget(data_dir: Path, name: str) -> None:
    """Remove a crew's files."""
    for suffix in (".json", ".wanted"):
        _path(data_dir, name, suffix).unlink(missing_ok=True)


def crews(data_dir: Path) -> list[CrewState]:
    """The crews that run now, by name."""
    found = []
    for path in sorted((data_dir / FOLDER).glob("*.json")):
        try:
            state = msgspec.json.decode(path.read_bytes(), type=CrewState)
        except (OSError, msgspec.DecodeError):
            continue
        if is_process(state.pid, state.birth):
            found.append(state)
    return found


def crew(data_dir: Path, name: str) -> CrewState:
    """The crew of that name that runs now; raises WorkerMissing."""
    there = {one.name: one for one in crews(data_dir)}
    if name in there:
        return there[name]
    near = nearest(name, there)
    hint = f"Did you mean {near}?" if near else f"Running: {', '.join(there) or 'none'}"
    raise WorkerMissing(f"no worker {name!r} runs in {data_dir}", hint=hint)


def ask(data_dir: Path, name: str, wish: Wish) -> None:
    """Ask a crew for another number of workers."""
    replace_file(_path(data_dir, name, ".wanted"), msgspec.json.encode(wish).decode() + "\n")


def asked(data_dir: Path, name: str) -> Wish | None:
    """What a crew was last asked for."""
    try:
        return msgspec.json.decode(_path(data_dir, name, ".wanted").read_bytes(), type=Wish)
    except (OSError, msgspec.DecodeError):
        return None


def _path(data_dir: Path, name: str, suffix: str = ".json") -> Path:
    return data_dir / FOLDER / (quote(name, safe="") + suffix)
