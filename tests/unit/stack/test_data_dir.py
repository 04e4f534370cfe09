"""The data folder: its version, its lock, its id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import suspend

from distributary.errors import DataFolderBusy, DataFolderError, DataFolderNewer
from distributary.stack.data_dir import VERSION, DataDir, replace_file


def test_new_folder_gets_this_version_and_a_permanent_id(tmp_path: Path) -> None:
    first = DataDir.open(tmp_path / "a" / "b")
    first.close()
    second = DataDir.open(tmp_path / "a" / "b")
    second.close()
    assert first.id == second.id
    assert (first.path / "version").read_text() == f"{VERSION}\n"


def test_two_folders_have_different_ids(tmp_path: Path) -> None:
    folders = [DataDir.open(tmp_path / name) for name in "ab"]
    assert folders[0].id != folders[1].id
    for folder in folders:
        folder.close()


def test_locked_folder_is_refused_with_the_pid_of_its_owner(tmp_path: Path) -> None:
    first = DataDir.open(tmp_path)
    with pytest.raises(DataFolderBusy, match=rf"pid {os.getpid()}\b"):
        DataDir.open(tmp_path)
    first.close()
    DataDir.open(tmp_path).close()


def test_suspended_owner_of_the_lock_is_reported(tmp_path: Path) -> None:
    opens = (
        "import sys, pathlib; from distributary.stack.data_dir import DataDir;"
        "folder = DataDir.open(pathlib.Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", opens, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "open\n"
            suspend(owner.pid)
            with pytest.raises(DataFolderBusy, match=rf"pid {owner.pid}\b.* is suspended") as refused:
                DataDir.open(tmp_path)
            assert f"kill -CONT {owner.pid}" in refused.value.hint
        finally:
            owner.kill()
    DataDir.open(tmp_path).close()


def test_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("7\n")
    with pytest.raises(DataFolderNewer, match="version 7"):
        DataDir.open(tmp_path)
    assert (tmp_path / "version").read_text() == "7\n"
    assert not (tmp_path / "stack.id").exists()


def test_refused_folder_is_not_left_locked(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("7\n")
    with pytest.raises(DataFolderNewer):
        DataDir.open(tmp_path)
    (tmp_path / "version").write_text("1\n")
    DataDir.open(tmp_path).close()


def test_older_version_is_migrated_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("1\n")
    seen: list[tuple[int, str]] = []

    def step(number: int, path: Path) -> None:
        seen.append((number, (path / "version").read_text().strip()))

    table = {1: lambda path: step(1, path), 2: lambda path: step(2, path)}
    DataDir.open(tmp_path, version=3, migrations=table).close()
    assert seen == [(1, "1"), (2, "2")]
    assert (tmp_path / "version").read_text() == "3\n"


def test_older_version_without_a_migration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("1\n")
    with pytest.raises(DataFolderError, match="cannot be migrated to 3"):
        DataDir.open(tmp_path, version=3, migrations={2: lambda path: None})


def test_damaged_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("one\n")
    with pytest.raises(DataFolderError, match="must contain a number"):
        DataDir.open(tmp_path)


def test_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match="file/data"):
        DataDir.open(tmp_path / "file" / "data")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_new_folder_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = DataDir.open(tmp_path / "new")
        folder.close()
    finally:
        os.umask(before)
    assert mode(folder.path) == 0o700
    assert not folder.shared


def test_existing_folder_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    DataDir.open(tmp_path).close()
    assert mode(tmp_path) == 0o700


def test_folder_of_another_user_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o770)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    folder = DataDir.open(tmp_path)
    folder.close()
    assert folder.shared


def test_folder_shared_by_all_users_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(DataFolderError, match="shared by all users"):
        DataDir.open(tmp_path)
    assert mode(tmp_path) == 0o1777


def test_replace_file_leaves_no_other_file(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", "one")
    replace_file(tmp_path / "a", "two")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "two")]
