"""Secret files are created once, atomically and private."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from distributary.config.private_files import private_folder, read_secret, secret_file, write_private
from distributary.errors import SecretFileError


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def lax() -> object:
    """The modes must not depend on the caller's umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_secret_is_created_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "secrets" / "store"
    assert secret_file(file, lambda: "first") == "first"
    assert secret_file(file, lambda: "second") == "first"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == ["store"]


def test_concurrent_creators_of_a_secret_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda n: secret_file(tmp_path / "s", lambda: f"secret {n}"), range(40))
        assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("loose", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_secret_that_others_can_read_or_change_is_rejected(tmp_path: Path, loose: int) -> None:
    file = tmp_path / "token"
    secret_file(file, lambda: "hush")
    file.chmod(loose)
    with pytest.raises(SecretFileError, match=f"mode {loose:04o}") as refused:
        secret_file(file, lambda: "other")
    assert f"chmod 600 {file}" in refused.value.hint
    assert "hush" not in str(refused.value)
    file.chmod(0o600)
    assert read_secret(file) == "hush"


def test_file_that_is_not_a_secret_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write_private(tmp_path / "empty", " \n")
    write_private(tmp_path / "binary", "\xff", encoding="latin-1")
    for name, why in {"folder": "cannot be read", "empty": "is empty", "binary": "not UTF-8"}.items():
        with pytest.raises(SecretFileError, match=why):
            secret_file(tmp_path / name, lambda: "new")
    with pytest.raises(SecretFileError, match="Not a directory"):
        secret_file(tmp_path / "empty" / "below", lambda: "new")


def test_read_secret_returns_none_before_it_is_created(tmp_path: Path) -> None:
    assert read_secret(tmp_path / "none") is None


def test_write_private_replaces_a_readable_file(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("old")
    (tmp_path / "conf").chmod(0o644)
    write_private(tmp_path / "conf", "new\n")
    assert ((tmp_path / "conf").read_text(), mode(tmp_path / "conf")) == ("new\n", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["conf"]


def test_private_folder_is_neither_a_link_nor_shared(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o700
    (tmp_path / "loose").mkdir(mode=0o755)
    assert private_folder(tmp_path / "loose")
    assert mode(tmp_path / "loose") == 0o700
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "link").symlink_to(tmp_path / "new")
    (tmp_path / "file").touch()
    assert not any(private_folder(tmp_path / name) for name in ("open", "link", "file"))
