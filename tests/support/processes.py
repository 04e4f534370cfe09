"""Python services as processes of a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.support.clock import LIMIT


def suspend(pid: int) -> None:
    """Send SIGSTOP and wait until it has taken effect: until then threads on other cores still answer."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 10 * LIMIT
    while not _suspended(pid):
        assert time.monotonic() < deadline, f"{pid} runs on"
        time.sleep(0.001)


def _suspended(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():  # not Linux
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    states = [(one / "stat").read_text().rpartition(") ")[2][0] for one in threads.iterdir()]
    return all(state in "tT" for state in states)


class Process:
    """A Python service; ``addresses`` are those of its ready line."""

    def __init__(self, module: str, env: Mapping[str, str], log: Path) -> None:
        self.folder = log.parent
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                env={**os.environ, **env},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            raise AssertionError(f"{module} ended before it was ready:\n{log.read_text()}")
        ready_line = json.loads(line)
        assert ready_line["ready"] is True
        self.component: str = ready_line["component"]
        self.addresses: dict[str, str] = ready_line["addresses"]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """End it; return its exit status and how long that took."""
        began = time.monotonic()
        self._process.send_signal(number)
        self._process.communicate(timeout=20 * LIMIT)
        return self._process.returncode, time.monotonic() - began

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None
