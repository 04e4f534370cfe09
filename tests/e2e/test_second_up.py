"""A second `distributary up` in a folder: refused without disturbing the first, until the first is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.processes import suspend
from tests.support.stack import AttachedStack, Feeding
from tests.support.up_command import Up

from distributary.stack import processes

SETTINGS = """
[[feeds]]
name = "events"
topic = "events"
create = true

[[views]]
name = "events"
feed = "events"
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 * LIMIT)]


def refused(folder: Path) -> str:
    """Start a second `up`, and return its error; it must exit at once."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "distributary.cli", "up"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30 * LIMIT,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert time.monotonic() - began < 5 * LIMIT
    assert "Traceback" not in done.stderr
    return done.stderr


async def test_second_up_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    up = Up(tmp_path, SETTINGS)
    try:
        up.start()
        first, before = up.process, up.components()
        feeding = Feeding(AttachedStack(tmp_path), topic="events")
        await feeding.live("events")
        feeding.produce([("a", {"n": 1})])
        await feeding.rows_become("events", {"a": {"n": 1}})

        error = refused(tmp_path)
        assert f"another `distributary up` (pid {first.pid}) runs in {tmp_path / '.distributary'}" in error
        assert "Stop that one first" in error

        suspend(first.pid)
        error = refused(tmp_path)
        assert f"(pid {first.pid})" in error
        assert "is suspended" in error
        assert f"kill -CONT {first.pid}" in error
        first.send_signal(signal.SIGCONT)

        assert up.components() == before, "nothing was restarted"
        feeding.produce([("b", {"n": 2})])
        await feeding.rows_become("events", {"a": {"n": 1}, "b": {"n": 2}})

        stack = (tmp_path / ".distributary" / "stack.id").read_text().strip()
        first.send_signal(signal.SIGSTOP)  # one that hangs is no different
        up.kill()
        left = processes.marked(stack)
        assert {component["pid"] for component in before.values()} <= {process.pid for process in left}
        up.start()
        assert "processes that an earlier run left behind" in (tmp_path / "up.log").read_text()
        assert not [process for process in left if processes.alive(process)]
        feeding.stack = AttachedStack(tmp_path)  # a port that somebody took meanwhile is another one now
        await feeding.live("events")
        feeding.produce([("c", {"n": 3})])
        await feeding.rows_become("events", {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}})
    finally:
        up.stop()
    assert processes.marked(stack) == []
