"""Where Spark's sockets are; the rest of the engine needs Spark, and is in integration/reduce."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from distributary.reduce.engine import socket_folder


def test_what_killed_processes_left_is_cleared_and_others_stay() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with tempfile.TemporaryDirectory(prefix="s") as short:
        sockets = Path(short) / "sockets"
        for pid in (ended.pid, os.getppid()):
            (sockets / str(pid)).mkdir(parents=True)
            (sockets / str(pid) / ".x.sock").touch()
        mine = socket_folder(Path(short))
        assert mine == sockets / str(os.getpid())
        assert sorted(sockets.iterdir()) == sorted((mine, sockets / str(os.getppid())))
        assert socket_folder(Path(short)) == mine


def test_a_path_that_is_too_long_for_a_socket_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="s") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        long = tmp_path / ("x" * 80)
        found = socket_folder(long)
        assert found == Path(short) / f"distributary-{os.getuid()}" / str(os.getpid())
        assert found.is_dir()
        assert not long.exists()
        monkeypatch.setattr(os, "getuid", lambda: found.stat().st_uid + 1)
        (Path(short) / f"distributary-{os.getuid()}").mkdir()
        assert socket_folder(long) is None, "the folder is another user's"
        monkeypatch.setattr(tempfile, "tempdir", str(long))
        assert socket_folder(long) is None, "the temporary files are too deep, too"
        assert not long.exists()
