"""``distributary up`` as a user starts it, and the processes below it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from distributary.stack import orphans
from tests.support.clock import LIMIT


class Up:
    """``distributary up`` as a user starts it."""

    def __init__(self, folder: Path, settings: str, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._env = {**os.environ, **(env or {})}
        (folder / "distributary.toml").write_text(settings)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "distributary.cli", "up"]
        with (self.folder / "up.log").open("ab") as log:
            self._process = subprocess.Popen(argv, cwd=self.folder, env=self._env, stdout=log, stderr=log)
        deadline = time.monotonic() + 120 * LIMIT
        while self.state() != "ready":
            assert self._process.poll() is None, (self.folder / "up.log").read_text()
            assert time.monotonic() < deadline, (self.folder / "up.log").read_text()
            time.sleep(0.1)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The supervisor."""
        assert self._process is not None
        return self._process

    def state(self) -> str:
        found = self._read()
        mine = self._process is not None and found.get("pid") == self._process.pid
        ready = mine and found["state"] == "ready" and all(p["state"] == "ready" for p in found["components"])
        return "ready" if ready else "starting"

    def components(self) -> dict[str, dict[str, Any]]:
        """The components, by name, as in the stack file."""
        return {component["name"]: component for component in self._read().get("components", [])}

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / ".distributary" / "stack.json").read_text())
            return found
        except (OSError, ValueError):
            return {}

    def pid(self, component: str) -> int:
        pids = {one["name"]: one["pid"] for one in self._read()["components"]}
        pid: int = pids[component]
        return pid

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop it, also one that is suspended; whatever else is wrong, no process is left behind."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGCONT)
                self.process.send_signal(signal.SIGINT)
                self.process.wait(30 * LIMIT)
        finally:
            self.process.kill()
            self.process.wait()
            data = self.folder / ".distributary"
            for process in orphans.find((data / "stack.id").read_text().strip(), data):
                process.kill()

    def jvm(self) -> int:
        """Spark's JVM."""
        children = psutil.Process(self.pid("reducers")).children()
        return next(int(one.pid) for one in children if one.name() == "java")

    def daemons(self) -> list[int]:
        """The processes that Python workers are forked from, the newest last."""
        found = []
        for one in psutil.Process(self.jvm()).children():
            with contextlib.suppress(psutil.Error):  # the JVM runs small programs now and then
                if "distributary.reducers.pyspark_daemon" in one.cmdline():
                    found.append((one.create_time(), int(one.pid)))
        return [pid for _, pid in sorted(found)]

    def daemon(self, worker: int = 0) -> int:
        """The one of them that a worker is of; the newest where that one is gone."""
        found = self.daemons()
        assert found, "there is no daemon"
        of_worker = psutil.Process(worker).ppid() if worker else 0
        return of_worker if of_worker in found else found[-1]
