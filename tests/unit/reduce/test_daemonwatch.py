"""The PySpark daemon: its own loop beats, and one that hangs is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.clock import LIMIT
from tests.support.processes import suspend

from distributary.reduce.daemonwatch import ENV, HUNG, MODULE, DaemonWatch


def until_written(file: Path) -> int:
    deadline = time.monotonic() + 30 * LIMIT
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < deadline, "the daemon does not beat"
        time.sleep(0.05)
    return int(file.read_text())


def test_a_daemon_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real daemon, as Spark starts it."""
    sockets = tmp_path / "s"
    sockets.mkdir()
    monkeypatch.setenv(ENV, "")
    watch = DaemonWatch(tmp_path)
    watch.announce()
    file = Path(os.environ[ENV])
    env = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(tmp_path),
    }
    daemon = subprocess.Popen(
        [sys.executable, "-m", MODULE, "pyspark.worker"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert until_written(file) == daemon.pid
        watch.look()
        time.sleep(1.5)  # its loop turns once a second
        watch.look()
        assert watch.silent == 0
        suspend(daemon.pid)
        watch.look()
        while watch.silent < HUNG - 1:
            before = watch.silent
            watch.look()
            assert watch.silent == before + 1
            assert daemon.poll() is None
        assert watch.look(), "another one is wanted"
        assert daemon.poll() is not None
        assert not watch.look()
        assert watch.silent == 0
    finally:
        if daemon.poll() is None:
            daemon.kill()
        daemon.communicate()


def test_somebody_else_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        watch = DaemonWatch(tmp_path)
        (tmp_path / f"pyspark-{os.getpid()}").write_text(str(other.pid))
        assert [watch.look() for _ in range(3)] == [False, True, False], "it is no daemon"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_files_of_processes_that_are_gone_are_cleared(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f"pyspark-{ended.pid}").touch()
    (tmp_path / f"pyspark-{os.getppid()}").touch()
    DaemonWatch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"pyspark-{os.getppid()}"]
