"""All components together: started by level, recorded in the stack file, stopped in reverse."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.fake_components import DEAF, FAIL, QUICK, SERVE, EventRecorder, component

from distributary.errors import ComponentFailed
from distributary.stack import processes, stack_file
from distributary.stack.component import Event
from distributary.stack.stack_file import Phase
from distributary.stack.supervisor import Supervisor


def supervisor(folder: Path, events: EventRecorder) -> Supervisor:
    return Supervisor(f"test-{os.getpid()}-{time.monotonic_ns()}", folder, events, QUICK)


async def test_levels_start_in_order_and_stop_in_reverse(
    tmp_path: Path,
) -> None:
    events = EventRecorder()
    runs = supervisor(tmp_path, events)
    await runs.start([component(tmp_path, "a", SERVE), component(tmp_path, "b", SERVE)])
    await runs.start([component(tmp_path, "c", SERVE)])
    runs.set_phase(Phase.READY)
    seen = stack_file.running(tmp_path)
    assert seen is not None
    assert [(p.name, p.state, p.pid is not None) for p in seen.components] == [
        ("a", "ready", True),
        ("b", "ready", True),
        ("c", "ready", True),
    ]
    assert seen.addresses == {"a": "http://x", "b": "http://x", "c": "http://x"}
    order = [event.component for event in events.of("ready")]
    assert order.index("c") == 2
    await runs.stop()
    assert [event.component for event in events.of("stopped")] == ["c", "a", "b"]
    assert processes.marked(runs.state.stack) == []
    after = stack_file.read(tmp_path)
    assert after is not None
    assert after.state == "stopped"
    assert [(p.pid, p.addresses) for p in after.components] == [(None, {})] * 3


async def test_components_restart_while_the_stack_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = EventRecorder()
    runs = supervisor(tmp_path, events)
    await runs.start([component(tmp_path, "a", SERVE)])
    file = tmp_path / stack_file.FILE

    def full(folder: Path, what: stack_file.StackState) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def until(ready: Callable[[], object]) -> None:
        async with asyncio.timeout(10 * LIMIT):
            while not ready():
                await asyncio.sleep(0.01)

    with monkeypatch.context() as disk:
        disk.setattr(stack_file, "write", full)
        first = runs.keeper("a").kill()
        await until(lambda: len(events.of("ready")) == 2)
        stale = stack_file.read(tmp_path)
        assert stale is not None
        assert stale.components[0].pid == first
        old = file.stat().st_mtime_ns
        assert not runs._write_if_outdated()
        assert file.stat().st_mtime_ns == old, "no heartbeat from a file that is not true"
    await until(lambda: (now := stack_file.read(tmp_path)) and now.components[0].pid not in (None, first))
    await runs.stop()


async def test_start_raises_when_a_component_is_given_up(tmp_path: Path) -> None:
    runs = supervisor(tmp_path, EventRecorder())
    with pytest.raises(ComponentFailed, match="bad does not start"):
        await runs.start([component(tmp_path, "good", SERVE), component(tmp_path, "bad", FAIL)])
    await runs.stop()
    assert processes.marked(runs.state.stack) == []


async def test_stop_kills_components_that_ignore_sigterm_within_the_limit(tmp_path: Path) -> None:
    runs = supervisor(tmp_path, EventRecorder())
    await runs.start([component(tmp_path, "a", DEAF)])
    await runs.start([component(tmp_path, "b", DEAF)])
    began = time.monotonic()
    await runs.stop(limit=4.0)
    assert time.monotonic() - began < 4.0 * max(1, LIMIT)
    assert processes.marked(runs.state.stack) == []


async def test_listener_that_raises_does_not_prevent_the_stop(tmp_path: Path) -> None:
    def closed(event: Event) -> None:
        raise BrokenPipeError

    runs = Supervisor(f"test-{os.getpid()}-{time.monotonic_ns()}", tmp_path, closed, QUICK)
    await runs.start([component(tmp_path, "a", SERVE)])
    await runs.start([component(tmp_path, "b", SERVE)])
    await runs.stop()
    assert processes.marked(runs.state.stack) == []
    after = stack_file.read(tmp_path)
    assert after is not None
    assert after.state == "stopped"


async def test_error_in_one_stop_does_not_prevent_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = supervisor(tmp_path, EventRecorder())
    await runs.start([component(tmp_path, "a", SERVE)])
    await runs.start([component(tmp_path, "b", SERVE)])

    async def fails(grace: float) -> None:
        raise RuntimeError

    bad = runs.keeper("b")
    good_stop = bad.stop
    monkeypatch.setattr(bad, "stop", fails)
    await runs.stop()
    assert processes.marked(runs.state.stack) == []
    await good_stop(1)


async def test_restarts_and_pids_are_in_the_stack_file(tmp_path: Path) -> None:
    events = EventRecorder()
    runs = supervisor(tmp_path, events)
    await runs.start([component(tmp_path, "a", SERVE)])
    before = runs.keeper("a").kill()
    await events.wait(lambda: len(events.of("ready")) == 2)
    seen = stack_file.read(tmp_path)
    assert seen is not None
    assert seen.component("a").restarts == 1
    assert seen.component("a").pid not in (None, before)
    with pytest.raises(KeyError):
        runs.keeper("z")
    await runs.stop()
