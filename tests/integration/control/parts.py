"""Real parts for the tests of this folder: processes with their ready line, and a reducer without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.clock import LIMIT

from distributary.model.definition import Definition
from distributary.reduce.packed import Packed
from distributary.reduce.reducer import Reducer
from distributary.reduce.rules import rule_of
from distributary.store.redis import RedisWriter
from distributary.store.tail import Build


class Process:
    """A Python part of the stack; ``addresses`` is what it said when it was ready."""

    def __init__(self, module: str, env: Mapping[str, str], log: Path) -> None:
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
        said = json.loads(line)
        assert said["ready"] is True
        self.part: str = said["part"]
        self.addresses: dict[str, str] = said["addresses"]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """End it; return its exit status and how long that took."""
        began = time.monotonic()
        self._process.send_signal(number)
        self._process.communicate(timeout=20 * LIMIT)
        return self._process.returncode, time.monotonic() - began

    @property
    def running(self) -> bool:
        return self._process.poll() is None


class Folding:
    """The real reducer of one partition, fed by hand."""

    def __init__(self, url: str, definition: Definition) -> None:
        self.store = RedisWriter(url)
        self.build = Build(definition.view.name, definition.build)
        self._definition = definition
        self._offset = 0
        self._claim()

    def _claim(self) -> None:
        generation = self.store.claim(self.build, "topic-id", 1).generation
        view = self._definition.view
        self._reducer = Reducer(
            self.store, self.build, 0, generation, view, rule_of(view), lambda letters: None
        )
        self._reducer.open()

    def fold(self, **rows: dict[str, Any] | None) -> None:
        """Fold one record a row, as one group."""
        packed = []
        for key, value in rows.items():
            text = None if value is None else json.dumps(value).encode()
            now = int(time.time() * 1000)
            packed.append(Packed(0, self._offset, now, now, key.encode(), text, False))
            self._offset += 1
        self._reducer.fold(packed)

    def again(self) -> None:
        """Begin again, as after a restart of the store."""
        self.store.close()
        self._claim()

    def go_live(self) -> None:
        self.store.go_live(self.build)
