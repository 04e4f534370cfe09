"""``python -m tests``: all tests, those that need no stack beside the others, which mostly wait for theirs.

Style, types, the pure tests and those that need no reducers run at a low priority while the stack's run in
front; their output comes when they end, at once if they fail. Tests that measure delays come last, when
nothing runs beside them. Arguments are pytest's; with a path among them it is pytest alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

PURE = ("tests/unit", "tests/contract")
SERVERS = tuple(
    f"tests/integration/{folder}"
    for folder in ("store", "kafka", "guarded", "cli", "client", "deadline", "gateway", "permit", "work")
)
"""Tests of what needs Kafka or a store and no reducers. They measure nothing."""
WHOLE = ("tests/integration", "tests/e2e", "tests/browser")
NOTHING_CHOSEN = 5
"""What pytest ends with when its arguments choose no test, as they may in one of several runs."""

_SLOWLY = {
    **os.environ,
    "DISTRIBUTARY_TEST_LIMIT": str(4 * float(os.environ.get("DISTRIBUTARY_TEST_LIMIT") or "1")),
}
"""Whoever is out of the way may take longer."""

_PYTEST = (sys.executable, "-m", "pytest", "-m", "not faults")
_SLOWEST = ("--durations=40", "--durations-min=2")
"""All tests together have half an hour: whoever adds one sees what takes it."""
_LINT = (
    (sys.executable, "-m", "ruff", "check", "."),
    (sys.executable, "-m", "ruff", "format", "--check", "."),
    (sys.executable, "-m", "mypy"),
)


class Beside:
    """Commands one after the other, out of the way; all are run, also after one that failed."""

    def __init__(self, commands: Sequence[Sequence[str]], good: Collection[int]) -> None:
        self.failed = False
        self._good = good
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
                nice = ["nice", "-n", "15", *command]
                self._running = subprocess.Popen(nice, stdout=output, stderr=subprocess.STDOUT, env=_SLOWLY)
                code = self._running.wait()
                if code not in self._good:
                    self.failed = True
                self._tell(command, code, output)

    def _tell(self, command: Sequence[str], code: int, output: IO[bytes]) -> None:
        output.seek(0)
        text = output.read().decode(errors="replace").rstrip()
        shown = text if code else text.rpartition("\n")[2]
        print(f"\n[beside] {' '.join(command[2:])}: exit {code}\n{shown}", flush=True)


def main(words: Sequence[str]) -> int:
    """Run what the words choose; 0 when all of it passed."""
    if any(Path(word.partition("::")[0]).exists() for word in words):
        return subprocess.run([*_PYTEST, *words], check=False).returncode
    good = (0, NOTHING_CHOSEN) if words else (0,)
    quiet = ("-q", "-p", "no:cacheprovider", "--timeout=600", *words)
    beside = Beside((*_LINT, (*_PYTEST, *PURE, *quiet), (*_PYTEST, *SERVERS, *quiet)), good)
    rest = [f"--ignore={folder}" for folder in SERVERS]
    try:
        code = subprocess.run([*_PYTEST, *_SLOWEST, *WHOLE, *rest, *words], check=False).returncode
        well = beside.join()
    except KeyboardInterrupt:
        beside.stop()
        return 130
    return 0 if code in good and well else 1


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(main(sys.argv[1:]))
