"""Driver processes of a test, on a Kafka and a store of its choice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.clock import LIMIT

REDUCERS = ("-m", "distributary.reducers")


class Drivers:
    """Starts drivers one after the other; each has its own log."""

    def __init__(self, servers: str, store_url: str, folder: Path, settings: str = "") -> None:
        self._folder = folder
        (folder / "distributary.toml").write_text(f'[spark]\nmemory = "512m"\n{settings}\n')
        self._env = {
            **os.environ,
            "DISTRIBUTARY_CONFIG": str(folder / "distributary.toml"),
            "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": servers,
            "DISTRIBUTARY_STORE_URL": store_url,
            "DISTRIBUTARY_DATA_DIR": str(folder),
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, program: Sequence[str] = REDUCERS) -> subprocess.Popen[bytes]:
        """Start a driver; ``program`` is what Python runs."""
        with self.log(len(self.started)).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *program],
                env=self._env,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self._folder,
            )
        self.started.append(process)
        return process

    def check(self) -> None:
        """Fail with its log when the newest driver has ended."""
        assert self.started[-1].poll() is None, self.log(len(self.started) - 1).read_text()

    def log(self, number: int) -> Path:
        """The log of a driver."""
        return self._folder / f"driver-{number}.log"

    def stop(self) -> None:
        """End those that still run, and wait for them."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            process.wait(30 * LIMIT)
