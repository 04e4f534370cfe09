"""``python -m tests``: all tests, in three lanes side by side, since tests of whole stacks mostly wait.

The main lane runs the tests that share one stack. A second one runs those that start servers or whole
stacks of their own, and a third, at a low priority, lint, types, unit tests and those that need no
reducers. The output of the side lanes is printed when one of their commands ends. Tests that measure delays
run last, with nothing beside them. Arguments are passed to pytest; with a path among them only pytest is
run.
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
"""Tests that need Kafka or a store but no reducers, and measure nothing."""
WHOLE = ("tests/integration", "tests/e2e", "tests/browser")
NOTHING_SELECTED = 5
"""The exit code of pytest when its arguments select no test, as may happen in one of several runs."""

_SLOWEST = ("--durations=40", "--durations-min=2")
"""All tests together may take half an hour: this shows which take how much of it."""
_LINT = (
    (sys.executable, "-m", "ruff", "check", "."),
    (sys.executable, "-m", "ruff", "format", "--check", "."),
    (sys.executable, "-m", "mypy"),
)


def _pytest(marks: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-m", marks, *arguments)


def _environment(factor: float) -> Mapping[str, str]:
    """The environment with longer time-outs, for tests that run beside others."""
    limit = float(os.environ.get("DISTRIBUTARY_TEST_LIMIT") or "1")
    return {**os.environ, "DISTRIBUTARY_TEST_LIMIT": str(factor * limit)}


class Lane:
    """Commands that run one after the other beside the main lane, also after one that failed."""

    def __init__(
        self, commands: Sequence[Sequence[str]], accepted: Collection[int], *, nice: int, factor: float
    ) -> None:
        self.failed = False
        self._accepted = accepted
        self._nice = ("nice", "-n", str(nice))
        self._environment = _environment(factor)
        self._commands = commands
        self._stopping = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> bool:
        """Wait for all commands; returns whether all succeeded."""
        self._thread.join()
        return not self.failed

    def stop(self) -> None:
        """End the commands, as Ctrl-C would."""
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
                if code not in self._accepted:
                    self.failed = True
                self._print(command, code, output)

    def _print(self, command: Sequence[str], code: int, output: IO[bytes]) -> None:
        output.seek(0)
        text = output.read().decode(errors="replace").rstrip()
        _, slowest, tail = text.partition("= slowest ")
        shown = text if code else slowest + tail or text.rpartition("\n")[2]
        print(f"\n[beside] {' '.join(command[2:])}: exit {code}\n{shown}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the tests that the arguments select; returns 0 when all passed."""
    if any(Path(word.partition("::")[0]).exists() for word in arguments):
        return subprocess.run(_pytest("not faults", *arguments), check=False).returncode
    accepted = (0, NOTHING_SELECTED) if arguments else (0,)
    marks, stacks = "not faults and not latency", [*WHOLE, *(f"--ignore={folder}" for folder in SERVERS)]
    quiet = ("-q", "-p", "no:cacheprovider", "--timeout=600", *arguments)
    small = [*_LINT, _pytest(marks, *PURE, *quiet), _pytest(marks, *SERVERS, *quiet)]
    own = _pytest(marks, "--stacks=own", *stacks, *_SLOWEST, *quiet)
    lanes = [Lane(small, accepted, nice=10, factor=4), Lane([own], accepted, nice=0, factor=2)]
    try:
        shared = _pytest(marks, "--stacks=shared", *stacks, *_SLOWEST, *arguments)
        codes = [subprocess.run(shared, check=False, env=_environment(2)).returncode]
        passed = [lane.join() for lane in lanes]
        measuring = _pytest("latency and not faults", *WHOLE, *arguments)
        codes.append(subprocess.run(measuring, check=False).returncode)
    except KeyboardInterrupt:
        for lane in lanes:
            lane.stop()
        return 130
    return 0 if all(passed) and all(code in accepted for code in codes) else 1


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(main(sys.argv[1:]))
