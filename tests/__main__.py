"""``python -m tests``: all tests, in three lanes, since tests of whole stacks mostly wait.

In front are the tests that share one stack; beside them those that start parts or whole stacks of their own,
and, at a low priority, style, types, the pure tests and those that need no reducers. The output of the lanes
beside comes when a command of theirs ends. Tests that measure delays come last, with nothing beside them.
Arguments are pytest's; with a path among them it is pytest alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO

PURE = ("tests/unit", "tests/contract")
SERVERS = tuple(
    f"tests/integration/{folder}"
    for folder in ("store", "kafka", "secured", "cli", "client", "deadline", "gateway", "auth", "workers")
)
"""Tests of what needs Kafka or a store and no reducers. They measure nothing."""
WHOLE = ("tests/integration", "tests/e2e", "tests/browser")
NOTHING_CHOSEN = 5
"""What pytest ends with when its arguments choose no test, as they may in one of several runs."""

_SLOWEST = ("--durations=40", "--durations-min=2")
"""All tests together have half an hour: whoever adds one sees what takes it."""
_LINT = (
    (sys.executable, "-m", "ruff", "check", "."),
    (sys.executable, "-m", "ruff", "format", "--check", "."),
    (sys.executable, "-m", "mypy"),
)


def _pytest(marks: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-m", marks, *words)


def _patient(factor: float) -> Mapping[str, str]:
    """Scale the time-outs of tests that have others beside them."""
    limit = float(os.environ.get("DISTRIBUTARY_TEST_LIMIT") or "1")
    return {**os.environ, "DISTRIBUTARY_TEST_LIMIT": str(factor * limit)}


class Lane:
    """Commands one after the other beside the front; all are run, also after one that failed."""

    def __init__(
        self, commands: Sequence[Sequence[str]], good: Collection[int], *, nice: int, patience: float
    ) -> None:
        self.failed = False
        self._good = good
        self._nice = ("nice", "-n", str(nice))
        self._environment = _patient(patience)
        self._commands = commands
        self._stopping = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> bool:
        """Wait for all; whether all was well."""
        self._thread.join()
        return not self.failed

    def stop(self) -> None:
        """End them, as Ctrl-C would."""
        self._stopping.set()
        if self._running is not None:
            self._running.send_signal(signal.SIGINT)
        self._thread.join()

    def _run(self) -> None:
        for command in self._commands:
            if self._stopping.is_set():
                return
            with tempfile.TemporaryFile() as output:
                self._running = subprocess.Popen(
                    [*self._nice, *command], stdout=output, stderr=subprocess.STDOUT, env=self._environment
                )
                code = self._running.wait()
                if code not in self._good:
                    self.failed = True
                self._tell(command, code, output)

    def _tell(self, command: Sequence[str], code: int, output: IO[bytes]) -> None:
        output.seek(0)
        text = output.read().decode(errors="replace").rstrip()
        _, slowest, tail = text.partition("= slowest ")
        shown = text if code else slowest + tail or text.rpartition("\n")[2]
        print(f"\n[beside] {' '.join(command[2:])}: exit {code}\n{shown}", flush=True)


def main(words: Sequence[str]) -> int:
    """Run what the words choose; 0 when all of it passed."""
    if any(Path(word.partition("::")[0]).exists() for word in words):
        return subprocess.run(_pytest("not faults", *words), check=False).returncode
    good = (0, NOTHING_CHOSEN) if words else (0,)
    marks, stacks = "not faults and not latency", [*WHOLE, *(f"--ignore={folder}" for folder in SERVERS)]
    quiet = ("-q", "-p", "no:cacheprovider", "--timeout=600", *words)
    small = [*_LINT, _pytest(marks, *PURE, *quiet), _pytest(marks, *SERVERS, *quiet)]
    own = _pytest(marks, "--stacks=own", *stacks, *_SLOWEST, *quiet)
    lanes = [Lane(small, good, nice=10, patience=4), Lane([own], good, nice=0, patience=2)]
    try:
        shared = _pytest(marks, "--stacks=shared", *stacks, *_SLOWEST, *words)
        codes = [subprocess.run(shared, check=False, env=_patient(2)).returncode]
        passed = [lane.join() for lane in lanes]
        measuring = _pytest("latency and not faults", *WHOLE, *words)
        codes.append(subprocess.run(measuring, check=False).returncode)
    except KeyboardInterrupt:
        for lane in lanes:
            lane.stop()
        return 130
    return 0 if all(passed) and all(code in good for code in codes) else 1


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(main(sys.argv[1:]))
