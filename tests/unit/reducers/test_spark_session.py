"""The socket folder and the slots of a Spark session; the rest needs Spark and is in tests/integration."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.build import Build
from distributary.reducers.spark_session import (
    SUBMIT_ARGS,
    SlotPool,
    properties_file,
    socket_folder,
    split_secrets,
)


def test_socket_folder_removes_only_folders_of_killed_processes() -> None:
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


def test_socket_folder_avoids_a_path_that_is_too_long(
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


def test_socket_folder_leaves_folders_with_other_names(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="s") as short:
        odd = [Path(short) / "sockets" / name for name in ("2024-old", "²³", "0", "9" * 30, "stack-1")]
        for folder in odd:
            folder.mkdir(parents=True)
        assert socket_folder(Path(short)) is not None
        assert all(folder.is_dir() for folder in odd)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_socket_folder_refuses_a_folder_that_others_may_write_to(mode: int) -> None:
    with tempfile.TemporaryDirectory(prefix="s") as short:
        (Path(short) / "sockets").mkdir()
        (Path(short) / "sockets").chmod(mode)
        assert socket_folder(Path(short)) is None


def test_socket_folder_follows_no_link(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    precious = tmp_path / str(ended.pid)
    precious.mkdir()
    with tempfile.TemporaryDirectory(prefix="s") as short:
        (Path(short) / "sockets").symlink_to(tmp_path)
        assert socket_folder(Path(short)) is None
    assert precious.is_dir()


def test_socket_folders_are_private() -> None:
    with tempfile.TemporaryDirectory(prefix="s") as short:
        (Path(short) / "sockets").mkdir(mode=0o755)
        mine = socket_folder(Path(short))
        assert mine is not None
        assert [oct(path.stat().st_mode & 0o777) for path in (mine.parent, mine)] == ["0o700", "0o700"]


FIRST, SECOND = Build("a", "1"), Build("b", "1")


def test_slot_pool_gives_all_slots_of_a_query_or_none() -> None:
    slots = SlotPool(lambda: 5)
    assert slots.take(FIRST, 2)
    assert not slots.take(SECOND, 3), "one is reserved for micro-batches"
    assert slots.take(SECOND, 2)
    slots.release(FIRST)
    assert not slots.take(FIRST, 3)
    slots.release(SECOND)
    assert slots.take(FIRST, 4)


def test_slot_pool_replaces_the_slots_of_a_build() -> None:
    slots = SlotPool(lambda: 5)
    assert slots.take(FIRST, 4)
    assert slots.take(FIRST, 3)
    assert not slots.take(FIRST, 5)
    assert slots.take(SECOND, 4), "a refused request takes nothing"


def test_slot_pool_counts_slots_at_each_request() -> None:
    there = [3]
    slots = SlotPool(lambda: there[0])
    assert not slots.take(FIRST, 4)
    there[0] = 5
    assert slots.take(FIRST, 4)
    there[0] = 3
    assert not slots.take(FIRST, 4)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9))), st.integers(1, 20))
def test_slot_pool_always_leaves_one_slot(steps: list[tuple[str, int]], total: int) -> None:
    slots, taken = SlotPool(lambda: total), dict[str, int]()
    for name, count in steps:
        build = Build(name, "1")
        taken.pop(name, None)
        if not count:
            slots.release(build)
        elif slots.take(build, count):
            taken[name] = count
        assert sum(taken.values()) < total


def file_of(arguments: str) -> Path:
    words = shlex.split(arguments)
    assert words[0] == "--properties-file"
    return Path(words[1])


def test_split_secrets_separates_secret_properties() -> None:
    shown, secret = split_secrets(
        {
            "spark.ui.enabled": "true",
            "spark.executor.memory": "4g",
            "spark.driver.extraJavaOptions": "-Dx=y z",
            "spark.hadoop.fs.s3a.secret.key": "hunter2",
            "spark.vendor.auth": "hunter2",
        }
    )
    assert set(shown) == {"spark.ui.enabled", "spark.executor.memory", "spark.driver.extraJavaOptions"}
    assert secret == {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.vendor.auth": "hunter2"}


def test_properties_file_is_private_and_removed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUBMIT_ARGS, "--verbose pyspark-shell")
    with properties_file({"spark.a": "hunter2"}):
        arguments = os.environ[SUBMIT_ARGS]
        file = file_of(arguments)
        assert "hunter2" not in arguments
        assert arguments.endswith("--verbose pyspark-shell")
        assert file.read_text() == "spark.a=hunter2\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()
    assert os.environ[SUBMIT_ARGS] == "--verbose pyspark-shell"


def test_properties_file_is_removed_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMIT_ARGS, raising=False)

    def fail() -> None:
        with properties_file({"spark.a": "hunter2"}):
            files.append(file_of(os.environ[SUBMIT_ARGS]))
            raise RuntimeError

    files: list[Path] = []
    with pytest.raises(RuntimeError):
        fail()
    assert not files[0].exists()
    assert SUBMIT_ARGS not in os.environ


def test_properties_are_written_as_java_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMIT_ARGS, raising=False)
    with properties_file({"spark.a b": " x=y:#!\\ \n\u20ac\U0001f600"}):
        text = file_of(os.environ[SUBMIT_ARGS]).read_text()
    assert text == "spark.a\\ b=\\ x\\=y\\:\\#\\!\\\\\\ \\n\\u20ac\\ud83d\\ude00\n"


def test_no_properties_file_is_written_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMIT_ARGS, raising=False)
    with properties_file({}):
        assert SUBMIT_ARGS not in os.environ
