"""Processes that a killed `up` left: found by mark and by pid, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from distributary.stack import orphans, processes, stack_file
from distributary.stack.processes import birth
from distributary.stack.stack_file import ComponentState, Phase, StackState

Start = Callable[..., "subprocess.Popen[bytes]"]
SLEEP = "print(1, flush=True); import time; time.sleep(600)"


@pytest.fixture
def stack() -> str:
    return f"test-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(script: str = SLEEP, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", script], env={**os.environ, **env}, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()  # it has its environment and its handlers
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def written(folder: Path, stack: str, pid: int, born: str) -> None:
    part = ComponentState("kafka", pid=pid, birth=born)
    stack_file.write(folder, StackState(stack, os.getpid(), "", Phase.READY, [part]))


async def test_marked_processes_are_ended_and_others_are_not(
    tmp_path: Path, stack: str, start: Start
) -> None:
    mine = start(DISTRIBUTARY_STACK=stack, DISTRIBUTARY_COMPONENT="kafka")
    other = start(DISTRIBUTARY_STACK=stack + "x")
    none = start()
    assert await orphans.end(stack, tmp_path) == 1
    assert mine.wait(5) == -15
    assert other.poll() is None
    assert none.poll() is None


async def test_one_deaf_to_sigterm_is_killed(
    tmp_path: Path, stack: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "GRACE", 0.4)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP
    mine = start(deaf, DISTRIBUTARY_STACK=stack)
    assert await orphans.end(stack, tmp_path) == 1
    assert mine.wait(5) == -9


def test_recorded_pid_is_ended_only_if_it_is_the_same_process(
    tmp_path: Path, stack: str, start: Start
) -> None:
    bare = start()
    born = birth(bare.pid)
    written(tmp_path, stack, bare.pid, born)
    assert [p.pid for p in orphans.find(stack, tmp_path)] == [bare.pid], "it wrote over its environment"
    written(tmp_path, stack, bare.pid, born + "1")
    assert orphans.find(stack, tmp_path) == [], "the pid was used again"
    other = start(DISTRIBUTARY_STACK=stack + "x")
    written(tmp_path, stack, other.pid, birth(other.pid))
    assert orphans.find(stack, tmp_path) == [], "another stack's"


def test_process_without_readable_environment_is_found_by_pid_and_birth(
    tmp_path: Path, stack: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = start()
    born = birth(mine.pid)

    def denied(self: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "environ", denied)
    written(tmp_path, stack, mine.pid, born)
    assert [p.pid for p in orphans.find(stack, tmp_path)] == [mine.pid]
    written(tmp_path, stack, mine.pid, born + "1")
    assert orphans.find(stack, tmp_path) == []


def test_own_process_is_not_an_orphan(monkeypatch: pytest.MonkeyPatch, stack: str) -> None:
    monkeypatch.setenv(processes.STACK, stack)
    assert processes.marked(stack) == []
