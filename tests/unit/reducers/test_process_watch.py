"""The PySpark daemon: its own loop beats, and one that hangs is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.processes import suspend

from distributary.reducers.process_watch import ENV, HUNG, MODULE, DaemonWatch


@contextmanager
def daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The real daemon, as Spark starts it; it beats by now."""
    env = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, "pyspark.worker"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30 * LIMIT
        while not file_of(process.pid).exists():
            assert time.monotonic() < deadline, "the daemon does not beat"
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


def file_of(pid: int) -> Path:
    return Path(f"{os.environ[ENV]}-{pid}")


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonWatch:
    monkeypatch.setenv(ENV, "")
    found = DaemonWatch(tmp_path)
    found.announce()
    return found


def wait_for_beat(pid: int) -> None:
    """Wait until a daemon's loop has turned once more."""
    before, deadline = file_of(pid).stat().st_mtime_ns, time.monotonic() + 10 * LIMIT
    while file_of(pid).stat().st_mtime_ns == before:
        assert time.monotonic() < deadline, "the daemon does not beat"
        time.sleep(0.05)


def test_daemon_that_hangs_is_killed(watch: DaemonWatch, tmp_path: Path) -> None:
    with daemon(tmp_path) as one:
        watch.look()
        wait_for_beat(one.pid)
        watch.look()
        assert watch.silent == 0
        suspend(one.pid)
        watch.look()
        while watch.silent < HUNG - 1:
            before = watch.silent
            watch.look()
            assert watch.silent == before + 1
            assert one.poll() is None
        assert watch.look(), "another one is wanted"
        assert one.poll() is not None
        assert not watch.look()
        assert watch.silent == 0


@pytest.mark.parametrize("first", [True, False], ids=["the older hangs", "the newer hangs"])
def test_one_of_two_daemons_that_hangs_is_killed(watch: DaemonWatch, tmp_path: Path, first: bool) -> None:
    """Spark has one for a backlog and one for Real-Time Mode: what one says is not said for the other."""
    with daemon(tmp_path) as older, daemon(tmp_path) as newer:
        hangs, other = (older, newer) if first else (newer, older)
        suspend(hangs.pid)
        watch.look()
        while watch.silent < HUNG - 1:
            wait_for_beat(other.pid)
            assert not watch.look()
        assert watch.look(), "another one is wanted"
        assert hangs.poll() is not None
        wait_for_beat(other.pid)
        assert not watch.look()
        assert watch.silent == 0
        assert other.poll() is None


def test_one_of_two_daemons_that_was_killed_is_missed(watch: DaemonWatch, tmp_path: Path) -> None:
    with daemon(tmp_path) as one, daemon(tmp_path) as other:
        assert not watch.look()
        one.kill()
        one.wait()
        wait_for_beat(other.pid)
        assert watch.look()
        wait_for_beat(other.pid)
        assert not watch.look()


def test_somebody_else_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        watch = DaemonWatch(tmp_path)
        (tmp_path / f"pyspark-{os.getpid()}-{other.pid}").touch()
        assert [watch.look() for _ in range(3)] == [True, False, False], "it is no daemon"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_files_of_processes_that_are_gone_are_cleared(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f"pyspark-{ended.pid}-7").touch()
    (tmp_path / f"pyspark-{os.getppid()}-8").touch()
    (tmp_path / "pyspark-notes").touch()
    DaemonWatch(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"pyspark-{os.getppid()}-8", "pyspark-notes"]


def test_its_files_go_with_it(watch: DaemonWatch, tmp_path: Path) -> None:
    with daemon(tmp_path):
        watch.close()
        assert not list(tmp_path.glob("pyspark-*"))
