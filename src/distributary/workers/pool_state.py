"""The state of a worker pool, and requests to scale it: small files in the data folder.

Only the pool writes ``workers/NAME.json``. Those who want to scale it write ``workers/NAME.request``: the
pool reads that, and reports in its own file which request it has applied.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import msgspec

from distributary.config.problems import nearest
from distributary.errors import WorkerMissing
from distributary.stack.data_dir import replace_file
from distributary.stack.stack_file import is_process
from distributary.workers.autoscaler import WorkerLimits

FOLDER = "workers"


class PoolState(msgspec.Struct, kw_only=True):
    """A pool. ``birth`` identifies its process, ``request`` is the id of the last applied request."""

    name: str
    pid: int
    birth: str
    function: str
    topic: str
    group: str
    minimum: int
    maximum: int
    workers: int = 0
    target: int = 0
    partitions: int = 0
    lag: int | None = None
    done: int = 0
    dead: int = 0
    restarts: int = 0
    request: str = ""

    @property
    def limits(self) -> WorkerLimits:
        """How many workers it may have."""
        return WorkerLimits(self.minimum, self.maximum)


class ScaleRequest(msgspec.Struct):
    """Asks a pool for other limits."""

    id: str
    minimum: int
    maximum: int


def write_state(data_dir: Path, state: PoolState) -> None:
    """Replace the state of a pool."""
    folder = data_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(_path(data_dir, state.name), msgspec.json.encode(state).decode() + "\n")


def remove_files(data_dir: Path, name: str) -> None:
    """Remove a pool's files."""
    for suffix in (".json", ".request"):
        _path(data_dir, name, suffix).unlink(missing_ok=True)


def running_pools(data_dir: Path) -> list[PoolState]:
    """The pools that run now, by name."""
    found = []
    for path in sorted((data_dir / FOLDER).glob("*.json")):
        try:
            state = msgspec.json.decode(path.read_bytes(), type=PoolState)
        except (OSError, msgspec.DecodeError):
            continue
        if is_process(state.pid, state.birth):
            found.append(state)
    return found


def running_pool(data_dir: Path, name: str) -> PoolState:
    """The pool of that name that runs now; raises WorkerMissing."""
    pools = {one.name: one for one in running_pools(data_dir)}
    if name in pools:
        return pools[name]
    near = nearest(name, pools)
    hint = f"Did you mean {near}?" if near else f"Running: {', '.join(pools) or 'none'}"
    raise WorkerMissing(f"no worker {name!r} runs in {data_dir}", hint=hint)


def request_scale(data_dir: Path, name: str, request: ScaleRequest) -> None:
    """Ask a pool for another number of workers."""
    replace_file(_path(data_dir, name, ".request"), msgspec.json.encode(request).decode() + "\n")


def requested_scale(data_dir: Path, name: str) -> ScaleRequest | None:
    """The last request to a pool."""
    try:
        return msgspec.json.decode(_path(data_dir, name, ".request").read_bytes(), type=ScaleRequest)
    except (OSError, msgspec.DecodeError):
        return None


def _path(data_dir: Path, name: str, suffix: str = ".json") -> Path:
    return data_dir / FOLDER / (quote(name, safe="") + suffix)
