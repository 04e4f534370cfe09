"""The data folder: the files that a stack has between runs, and the lock of the running `up`.

version       the layout of the folder
stack.id      the name of the stack, in the environment of each of its processes
lock          locked by the running `up`, with its pid
stack.json    what runs now (see stack_file.py)
ports.json    which ports were chosen
secrets/      passwords that the stack created for itself (0600)
kafka/ store/ logs/   the data of the components

Its mode is 0700, since it contains rows, logs and passwords.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import psutil

from distributary.errors import DataFolderBusy, DataFolderError, DataFolderNewer

VERSION = 3

Migration = Callable[[Path], None]


def _clear_store(path: Path) -> None:
    """Clear the embedded store, whose rows have another format: the views are then rebuilt from Kafka."""
    shutil.rmtree(path / "store", ignore_errors=True)


MIGRATIONS: Mapping[int, Migration] = {1: _clear_store, 2: _clear_store}
"""By version: what brings a folder from it to the next version. Each must be idempotent."""


class DataDir:
    """An open data folder. No other process can open it until `close`, or until this process has ended."""

    def __init__(self, path: Path, lock: TextIO) -> None:
        self.path = path
        self._lock = lock
        self.id = _stack_id(path / "stack.id")
        self.logs.mkdir(exist_ok=True)

    @classmethod
    def open(
        cls, path: Path, *, version: int = VERSION, migrations: Mapping[int, Migration] = MIGRATIONS
    ) -> DataDir:
        """Create or open the folder, bring it to this version, and lock it.

        Raises `DataFolderBusy` with the pid of the other process, `DataFolderNewer`, or `DataFolderError`.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _tighten(path)
            lock = _lock(path)
            try:
                _bring_to(path, version, migrations)
                return cls(path, lock)
            except BaseException:
                lock.close()
                raise
        except OSError as error:
            raise DataFolderError(
                f"cannot use the data folder {path}: {error.strerror or error}",
                hint="Set data_dir (or DISTRIBUTARY_DATA_DIR) to a folder that you can write to",
            ) from error

    @property
    def logs(self) -> Path:
        """The folder of the components' logs."""
        return self.path / "logs"

    @property
    def shared(self) -> bool:
        """Whether other users can read it, since it belongs to another user."""
        return bool(self.path.stat().st_mode & 0o077)

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


def _tighten(path: Path) -> None:
    """Make the folder private, if it belongs to this user: the root of a volume may belong to the system."""
    found = path.stat()
    if found.st_mode & stat.S_ISVTX:
        raise DataFolderError(
            f"the data folder {path} is shared by all users",
            hint=f"Set data_dir to a folder of your own, such as {path / 'distributary'}",
        )
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        path.chmod(0o700)


def _lock(path: Path) -> TextIO:
    # The system releases it when the process ends, however it ends; a pid file would remain.
    lock = (path / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        pid = lock.read().strip() or "unknown"
        lock.close()
        raise _busy(path, pid) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _busy(path: Path, pid: str) -> DataFolderBusy:
    message = f"another `distributary up` (pid {pid}) runs in {path}"
    if _suspended(pid):  # by Ctrl-Z: it would not react to Ctrl-C either
        return DataFolderBusy(
            f"{message}, but is suspended",
            hint=f"Resume it with: kill -CONT {pid}, or end it with: kill -KILL {pid}; "
            "the next `up` ends what it leaves behind",
        )
    return DataFolderBusy(message, hint="Stop that one first, or set another data_dir")


def _suspended(pid: str) -> bool:
    try:
        return pid.isdecimal() and psutil.Process(int(pid)).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def _bring_to(path: Path, version: int, migrations: Mapping[int, Migration]) -> None:
    file = path / "version"
    if not file.exists():
        ignore = path / ".gitignore"
        if not ignore.exists():
            replace_file(ignore, "*\n")
        replace_file(file, f"{version}\n")
        return
    text = file.read_text(encoding="utf-8").strip()
    if not text.isdecimal():
        raise DataFolderError(
            f"{file} must contain a number, but contains {text[:40]!r}",
            hint="Restore it, or set another data_dir",
        )
    found = int(text)
    if found > version:
        raise DataFolderNewer(
            f"the data folder {path} has version {found}, and this Distributary supports up to {version}",
            hint="Use the newer Distributary that created it, or set another data_dir",
        )
    while found < version:
        if found not in migrations:
            raise DataFolderError(
                f"the data folder {path} has version {found}, which cannot be migrated to {version}",
                hint="Set another data_dir; the views are then rebuilt there",
            )
        migrations[found](path)
        found += 1
        replace_file(file, f"{found}\n")


def _stack_id(file: Path) -> str:
    if file.exists():
        known = file.read_text(encoding="utf-8").strip()
        if known:
            return known
    created = secrets.token_hex(8)
    replace_file(file, f"{created}\n")
    return created


def replace_file(path: Path, text: str) -> None:
    """Replace the content of a file in one step: a reader sees the old or the new, whole."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.new")
    with staged.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
