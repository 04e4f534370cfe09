"""PySpark daemons that hang are killed, and a loop that hangs ends its process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.processes import suspend

from distributary.reducers.process_watch import (
    DAEMON_HEARTBEAT,
    DAEMON_HUNG,
    DAEMON_MODULE,
    DaemonWatch,
    Watchdog,
)
from distributary.service import ExitCode


@contextmanager
def daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The real daemon, as Spark starts it; its heartbeat file is there by now."""
    env = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", DAEMON_MODULE, "pyspark.worker"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30 * LIMIT
        while not file_of(process.pid).exists():
            assert time.monotonic() < deadline, "the daemon has no heartbeat"
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


def file_of(pid: int) -> Path:
    return Path(f"{os.environ[DAEMON_HEARTBEAT]}-{pid}")


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonWatch:
    monkeypatch.setenv(DAEMON_HEARTBEAT, "")
    found = DaemonWatch(tmp_path)
    found.export()
    return found


def wait_for_heartbeat(pid: int) -> None:
    """Wait until a daemon's loop has turned once more."""
    before, deadline = file_of(pid).stat().st_mtime_ns, time.monotonic() + 10 * LIMIT
    while file_of(pid).stat().st_mtime_ns == before:
        assert time.monotonic() < deadline, "the daemon has no heartbeat"
        time.sleep(0.05)


def test_daemon_that_hangs_is_killed(watch: DaemonWatch, tmp_path: Path) -> None:
    with daemon(tmp_path) as one:
        watch.check()
        wait_for_heartbeat(one.pid)
        watch.check()
        assert watch.silent == 0
        suspend(one.pid)
        watch.check()
        while watch.silent < DAEMON_HUNG - 1:
            before = watch.silent
            watch.check()
            assert watch.silent == before + 1
            assert one.poll() is None
        assert watch.check(), "another one must be started"
        assert one.poll() is not None
        assert not watch.check()
        assert watch.silent == 0


@pytest.mark.parametrize("first", [True, False], ids=["the older hangs", "the newer hangs"])
def test_one_of_two_daemons_that_hangs_is_killed(watch: DaemonWatch, tmp_path: Path, first: bool) -> None:
    """Spark has one for a backlog and one for Real-Time Mode: each has a heartbeat of its own."""
    with daemon(tmp_path) as older, daemon(tmp_path) as newer:
        hangs, other = (older, newer) if first else (newer, older)
        suspend(hangs.pid)
        watch.check()
        while watch.silent < DAEMON_HUNG - 1:
            wait_for_heartbeat(other.pid)
            assert not watch.check()
        assert watch.check(), "another one must be started"
        assert hangs.poll() is not None
        wait_for_heartbeat(other.pid)
        assert not watch.check()
        assert watch.silent == 0
        assert other.poll() is None


def test_daemon_watch_reports_one_of_two_daemons_that_was_killed(watch: DaemonWatch, tmp_path: Path) -> None:
    with daemon(tmp_path) as one, daemon(tmp_path) as other:
        assert not watch.check()
        one.kill()
        one.wait()
        wait_for_heartbeat(other.pid)
        assert watch.check()
        wait_for_heartbeat(other.pid)
        assert not watch.check()


def test_daemon_watch_spares_another_process_with_the_same_pid(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        watch = DaemonWatch(tmp_path)
        (tmp_path / f"pyspark-{os.getpid()}-{other.pid}").touch()
        assert [watch.check() for _ in range(3)] == [True, False, False], "it is not a daemon"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_daemon_watch_removes_files_of_processes_that_are_gone(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f"pyspark-{ended.pid}-7").touch()
    (tmp_path / f"pyspark-{os.getppid()}-8").touch()
    (tmp_path / "pyspark-notes").touch()
    DaemonWatch(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"pyspark-{os.getppid()}-8", "pyspark-notes"]


def test_daemon_watch_removes_its_files_when_closed(watch: DaemonWatch, tmp_path: Path) -> None:
    with daemon(tmp_path):
        watch.close()
        assert not list(tmp_path.glob("pyspark-*"))


def test_watchdog_ends_process_when_loop_hangs() -> None:
    left: list[object] = []
    ended = threading.Event()

    def exit_(code: int) -> None:
        left.append(code)
        ended.set()

    dog = Watchdog(lambda: "the JVM", lambda: left.append("killed"), hung=1.0, exit=exit_).start()
    dog.turn()
    assert ended.wait(10)
    assert left == ["killed", ExitCode.JVM_HUNG], "what it was waiting for ends first"


def test_watchdog_spares_loop_that_turns_or_was_stopped() -> None:
    left: list[object] = []
    dog = Watchdog(lambda: "", hung=1.0, exit=left.append).start()
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        dog.turn()
        time.sleep(0.05)
    dog.stop()
    time.sleep(1.6)
    assert left == []
