"""Helper processes: heard with a limit, ended by their own pid."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest
from bench import child
from bench.child import BenchError
from tests.support.clock import LIMIT

ECHO = (
    "import sys\nprint('{\"ready\": true}', flush=True)\n"
    "for line in sys.stdin: print(line, end='', flush=True)"
)
STUBBORN = (
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('{}', flush=True)\n"
    "while True: signal.pause()"
)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


async def test_it_answers_and_is_gone_afterwards(tmp_path: Path) -> None:
    async with child.run("echo", python(ECHO), tmp_path) as one:
        assert await one.line(20 * LIMIT) == {"ready": True}
        assert await one.ask(b'{"n": 1}', 20 * LIMIT) == {"n": 1}
        pid = one.pid
    assert not psutil.pid_exists(pid)


async def test_one_that_ends_is_told_with_the_last_of_its_log(tmp_path: Path) -> None:
    async with child.run("short", python("import sys; sys.exit('no luck')"), tmp_path) as one:
        with pytest.raises(BenchError, match="short ended: no luck"):
            await one.line(20 * LIMIT)


async def test_silence_has_an_end(tmp_path: Path) -> None:
    async with child.run("echo", python(ECHO), tmp_path) as one:
        await one.line(20 * LIMIT)
        with pytest.raises(BenchError, match=r"said nothing for 0\.05 s"):
            await one.line(0.05)


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async with child.run("stubborn", python(STUBBORN), tmp_path) as one:
        await one.line(20 * LIMIT)
        await one.stop(grace=0.1)
        assert not psutil.pid_exists(one.pid)
