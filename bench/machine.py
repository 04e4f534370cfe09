"""On what a benchmark ran: figures mean nothing without it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from distributary.errors import DistributaryError
from distributary.setup import java, store_server


def describe() -> dict[str, Any]:
    """What the machine is, which versions ran, and how busy it was before."""
    return {
        "time": now(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "pyspark": metadata.version("pyspark"),
        "java": _java(),
        "go": _go(),
        "store": _store(),
        # Names only: values may be secret.
        "settings_from_environment": sorted(name for name in os.environ if name.startswith("DISTRIBUTARY_")),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def cpu_model(info: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name; where the system does not say, its architecture."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def now() -> str:
    """The time, as it is kept."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def commit() -> str:
    """What was measured: the commit, with a + where files differ from it; empty where git does not say."""
    here = Path(__file__).parent
    said = [
        subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False).stdout.strip()
        for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--", "../src", "../bench"))
    ]
    changed = [line for line in said[1].splitlines() if not line.endswith("latest.json")]
    return said[0] + ("+" if changed else "")


class Stolen:
    """What of a virtual machine's time its host gave to others, from the making of this on."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._before = self._read()

    def share(self) -> float | None:
        """The share of all time since; None where the system does not say."""
        now = self._read()
        passed = [after - before for before, after in zip(self._before, now, strict=True)]
        total: int = sum(passed)
        return round(passed[7] / total, 4) if len(passed) > 7 and total else None

    def _read(self) -> list[int]:
        try:
            first = self._stat.read_text().split("\n", 1)[0].split()
        except OSError:
            return []
        return [int(word) for word in first[1:9]]


def _java() -> str:
    try:
        return java.find().version
    except DistributaryError:
        return ""


def _store() -> str:
    try:
        found = store_server.find()
    except DistributaryError:
        return ""
    return f"{found.kind} {found.version}"


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        return ""
    try:
        said = subprocess.run([go, "version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"go(\d\S*)", said.removeprefix("go version "))
    return found[1] if found else ""
