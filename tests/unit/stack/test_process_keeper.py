"""One component kept running: started, watched, restarted, given up, stopped with all its descendants."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from tests.support.clock import LIMIT
from tests.support.fake_components import DEAF, FAIL, QUICK, READY, SERVE, EventRecorder, component, launch
from tests.support.processes import suspend

from distributary.errors import ComponentFailed, StoreUnavailable
from distributary.service import ExitCode
from distributary.stack import processes
from distributary.stack.component import Component, Launch, Started
from distributary.stack.process_keeper import Keeper, Policy, with_reason
from distributary.stack.stack_components import heartbeat_file_moves


def start_keeper(one: Component, events: EventRecorder, policy: Policy = QUICK) -> Keeper:
    keeper = Keeper(one, f"test-{os.getpid()}-{time.monotonic_ns()}", events, lambda: None, policy)
    keeper.start()
    return keeper


def test_pause_doubles_up_to_the_longest() -> None:
    policy = Policy(first=0.5, longest=30)
    assert [policy.pause(n) for n in (1, 2, 3, 4, 8, 9, 5000)] == [0, 0.5, 1, 2, 30, 30, 30]


def test_reason_of_an_end_is_the_last_error_in_the_log() -> None:
    tail = [
        "Traceback",
        "error: Spark's JVM (pid 7) was killed by SIGABRT",
        "BrokenPipeError",
    ]
    ended = "ended with exit code 4"
    assert with_reason(ended, tail) == f"{ended}: Spark's JVM (pid 7) was killed by SIGABRT"
    critical = (
        "2026-01-01 CRITICAL distributary.reducers.process_watch: Spark's JVM has not responded for 9 s"
    )
    assert with_reason(ended, [*tail, critical]) == f"{ended}: Spark's JVM has not responded for 9 s"
    assert with_reason(ended, ["no such words"]) == ended


async def test_component_is_ready_at_its_ready_line_and_ends_when_stopped(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", SERVE), events)
    await keeper.came_up
    assert (keeper.state.state, keeper.state.restarts) == ("ready", 0)
    assert keeper.state.addresses == {"http": "http://x"}
    pid = keeper.state.pid
    assert pid is not None
    assert os.getsid(pid) == pid, "in a session of its own, so that Ctrl-C does not reach it"
    await keeper.stop(5 * LIMIT)
    assert not psutil.pid_exists(pid)
    phase: str = keeper.state.state
    assert phase == "stopped"


async def test_killed_component_is_restarted(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", SERVE), events)
    await keeper.came_up
    before = keeper.kill()
    await events.wait(lambda: len(events.of("ready")) == 2)
    assert keeper.state.pid not in (None, before)
    assert keeper.state.restarts == 1
    assert "killed by SIGKILL" in events.of("died")[0].message
    await keeper.stop(5 * LIMIT)


async def test_component_that_always_fails_is_given_up_with_the_end_of_its_log(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", FAIL), events)
    with pytest.raises(
        ComponentFailed, match=r"a does not start: ended with exit code 4; given up after 5 starts"
    ):
        await keeper.came_up
    assert len(events.of("starting")) == 5
    assert events.of("failed")[0].log_tail == ["it hurts here"], "of the last try only"
    assert keeper.state.state == "failed"
    await keeper.stop(1)


async def test_component_that_was_ready_once_is_never_given_up(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", READY), events)
    await events.wait(lambda: len(events.of("died")) > QUICK.attempts + 1)
    assert not events.of("failed")
    await keeper.stop(5 * LIMIT)


async def test_component_with_a_final_exit_code_is_not_restarted(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", READY + f"raise SystemExit({ExitCode.FINAL:d})"), events)
    await events.wait(lambda: bool(events.of("failed")))
    assert len(events.of("starting")) == 1
    await keeper.stop(1)


async def test_component_that_is_not_ready_in_time_is_restarted(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", "import time; time.sleep(600)", start_timeout=0.2), events)
    await events.wait(lambda: len(events.of("died")) == 2)
    assert "not ready within 0.2 s" in events.of("died")[0].message
    await keeper.stop(5 * LIMIT)


async def test_missing_program_is_reported(tmp_path: Path) -> None:
    async def never(started: Started) -> dict[str, str]:
        raise AssertionError

    events = EventRecorder()
    missing = Component(
        name="a", log=tmp_path / "log", launch=lambda: Launch(argv=["/no/such/program"], env={}), ready=never
    )
    keeper = start_keeper(missing, events)
    with pytest.raises(ComponentFailed, match=r"cannot be started.*No such file"):
        await keeper.came_up
    await keeper.stop(1)


async def test_failed_preparation_is_a_failed_start(tmp_path: Path) -> None:
    async def never(started: Started) -> dict[str, str]:
        raise AssertionError

    events = EventRecorder()
    before = [[sys.executable, "-c", "raise SystemExit(9)"]]
    prepared = Launch(argv=["unused"], env=os.environ, before=before)
    one = Component(name="a", log=tmp_path / "log", launch=lambda: prepared, ready=never)
    keeper = start_keeper(one, events, Policy(first=0.01, attempts=1))
    with pytest.raises(ComponentFailed, match="preparation ended with exit code 9"):
        await keeper.came_up
    await keeper.stop(1)


async def test_ready_check_that_raises_is_a_failed_start(tmp_path: Path) -> None:
    async def ready(started: Started) -> dict[str, str]:
        raise StoreUnavailable("the disk is full")

    events = EventRecorder()
    one = Component(name="a", log=tmp_path / "log", launch=lambda: launch(SERVE), ready=ready)
    keeper = start_keeper(one, events, Policy(first=0.01, attempts=2))
    with pytest.raises(ComponentFailed, match="the disk is full"):
        await keeper.came_up
    await keeper.stop(1)


async def test_one_deaf_to_sigterm_is_killed_at_the_deadline(tmp_path: Path) -> None:
    keeper = start_keeper(component(tmp_path, "a", DEAF), EventRecorder())
    await keeper.came_up
    pid = keeper.state.pid
    began = time.monotonic()
    await keeper.stop(0.3)
    assert time.monotonic() - began < 0.3 + 2 * LIMIT
    assert pid is not None
    assert not psutil.pid_exists(pid)


DAEMON = """
import subprocess, sys
child = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
run = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
open(sys.argv[1], "wb").write(run.stdout.readline())
"""


async def test_descendants_in_other_sessions_end_with_their_component(
    tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    script = f"import sys; sys.argv = ['', {str(note)!r}]\n" + DAEMON + SERVE
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", script), events)
    await keeper.came_up
    first = int(note.read_text())
    assert psutil.pid_exists(first)
    keeper.kill()
    await events.wait(lambda: len(events.of("ready")) == 2)
    assert not processes.alive(psutil.Process(first)) if psutil.pid_exists(first) else True
    second = int(note.read_text())
    assert second != first
    await keeper.stop(5 * LIMIT)
    assert not await processes.wait_gone([psutil.Process(second)] if psutil.pid_exists(second) else [], 0)


HEARTBEATS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *a: sys.exit(0))
while True:
    open(sys.argv[1], "w").close()
    time.sleep(0.1)
"""


def with_heartbeat(folder: Path) -> Component:
    """A component that moves the time of a file."""
    file = folder / "heartbeat"
    made = component(folder, "a", f"import sys; sys.argv = ['', {str(file)!r}]\n" + READY + HEARTBEATS)
    return dataclasses.replace(made, alive=heartbeat_file_moves(file))


async def test_component_that_hangs_is_silent_then_killed_and_restarted(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(with_heartbeat(tmp_path), events, Policy(first=0.01, silent=2, hung=4))
    await keeper.came_up
    pid = keeper.state.pid
    assert pid is not None
    suspend(pid)
    await events.wait(lambda: bool(events.of("silent")))
    assert (keeper.state.state, keeper.state.error) == ("silent", "no heartbeat for 2 s")
    await events.wait(lambda: len(events.of("ready")) == 2)
    assert keeper.state.pid not in (None, pid)
    assert not psutil.pid_exists(pid), "it was killed though it was stopped"
    assert "gave no heartbeat for 4 s; restarting it now" in events.of("died")[0].message
    await keeper.stop(5 * LIMIT)


async def test_component_is_ready_again_when_its_heartbeat_returns(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(with_heartbeat(tmp_path), events, Policy(first=0.01, silent=2, hung=600))
    await keeper.came_up
    pid = keeper.state.pid
    assert pid is not None
    suspend(pid)
    await events.wait(lambda: bool(events.of("silent")))
    os.kill(pid, signal.SIGCONT)
    await events.wait(lambda: len(events.of("ready")) == 2)
    assert (keeper.state.state, keeper.state.pid, keeper.state.restarts) == ("ready", pid, 0)
    await keeper.stop(5 * LIMIT)


async def test_suspended_keeperdoes_not_count_its_own_silence(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(with_heartbeat(tmp_path), events, Policy(first=0.01, silent=3, hung=4))
    await keeper.came_up
    await asyncio.sleep(1.5)  # until it had a first heartbeat
    time.sleep(6)  # the keeper hangs, and the component does not
    await asyncio.sleep(2.5)
    assert not events.of("silent")
    assert not events.of("died")
    await keeper.stop(5 * LIMIT)


async def test_stop_succeeds_in_the_pause_between_two_starts(tmp_path: Path) -> None:
    events = EventRecorder()
    keeper = start_keeper(component(tmp_path, "a", FAIL), events, Policy(first=600))
    await events.wait(lambda: len(events.of("died")) == 2)
    await asyncio.wait_for(keeper.stop(1), 2 * LIMIT)
    assert keeper.came_up.cancelled()


async def test_component_is_restarted_after_an_unexpected_error_of_its_checks(tmp_path: Path) -> None:
    """Whoever keeps the others must not end by what one of them answers."""
    events = EventRecorder()
    plain = component(tmp_path, "a", SERVE)
    answers: Iterator[ValueError | None] = itertools.chain(
        [ValueError("no such answer"), None, ValueError("no such heartbeat")], itertools.repeat(None)
    )

    async def ready(started: Started) -> Mapping[str, str]:
        if error := next(answers):
            raise error
        return await plain.ready(started)

    async def alive() -> None:
        if len(events.of("ready")) == 1 and (error := next(answers)):
            raise error

    keeper = start_keeper(dataclasses.replace(plain, ready=ready, alive=alive), events)
    await keeper.came_up
    assert "no such answer" in events.of("died")[0].message
    await events.wait(lambda: len(events.of("ready")) == 2)
    assert "no such heartbeat" in events.of("died")[1].message
    await keeper.stop(5 * LIMIT)
