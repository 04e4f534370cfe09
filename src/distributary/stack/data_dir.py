"""The data folder: what a stack keeps between runs, and the lock that one `up` holds on it.

version       the layout of the folder
stack.id      the name of the stack, in the environment of each of its processes
lock          held by the running `up`, with its pid
stack.json    what runs now (see state.py)
ports.json    which ports were chosen
secrets/      passwords that the stack made for itself (0600)
kafka/ store/ logs/   what the parts keep

The folder is 0700: rows, logs and passwords are in it.
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


def _build_anew(path: Path) -> None:
    """Rows are stored in another form: clear the embedded store, and let the views be built from Kafka."""
    shutil.rmtree(path / "store", ignore_errors=True)


MIGRATIONS: Mapping[int, Migration] = {1: _build_anew, 2: _build_anew}
"""By the version a folder has: what makes it the next version. Each must bear being run twice."""


class DataDir:
    """An opened data folder. Nobody else opens it until `close`, or until this process is gone."""

    def __init__(self, path: Path, lock: TextIO) -> None:
        self.path = path
        self._lock = lock
        self.id = _stack_id(path / "stack.id")
        self.logs.mkdir(exist_ok=True)

    @classmethod
    def open(
        cls, path: Path, *, version: int = VERSION, migrations: Mapping[int, Migration] = MIGRATIONS
    ) -> DataDir:
        """Make or open the folder, bring it to this version, and lock it.

        Raises `DataFolderBusy` with the other's pid, `DataFolderNewer`, or `DataFolderError`.
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
                f"the data folder {path} cannot be used: {error.strerror or error}",
                hint="Set data_dir (or DISTRIBUTARY_DATA_DIR) to a folder that you may write to",
            ) from error

    @property
    def logs(self) -> Path:
        """Where each part has its log."""
        return self.path / "logs"

    @property
    def shared(self) -> bool:
        """Whether others can look into it all the same, since it is another user's."""
        return bool(self.path.stat().st_mode & 0o077)

    def close(self) -> None:
        """Let go of the lock."""
        self._lock.close()


def _tighten(path: Path) -> None:
    """Shut others out of the folder, if it is ours: a volume's root, say, may be the system's."""
    found = path.stat()
    if found.st_mode & stat.S_ISVTX:
        raise DataFolderError(
            f"the data folder {path} is shared by all users",
            hint=f"Name a folder of your own in data_dir, such as {path / 'distributary'}",
        )
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        path.chmod(0o700)


def _lock(path: Path) -> TextIO:
    # The system frees it when the process ends, however it ends; a mere pid file would stay behind.
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
    said = f"another `distributary up` (pid {pid}) runs in {path}"
    if _suspended(pid):  # by Ctrl-Z: it would not react to Ctrl-C either
        return DataFolderBusy(
            f"{said}, but is suspended",
            hint=f"Resume it with: kill -CONT {pid}, or end it with: kill -KILL {pid}; "
            "the next `up` ends what it leaves behind",
        )
    return DataFolderBusy(said, hint="Stop that one first, or give this one a data_dir of its own")


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
            f"{file} should hold a number, but holds {text[:40]!r}",
            hint="Restore it, or name another folder in data_dir",
        )
    found = int(text)
    if found > version:
        raise DataFolderNewer(
            f"the data folder {path} has version {found}; this Distributary knows none above {version}",
            hint="Use the newer Distributary that made it, or name another folder in data_dir",
        )
    while found < version:
        if found not in migrations:
            raise DataFolderError(
                f"the data folder {path} has version {found}, from which there is no way to {version}",
                hint="Name another folder in data_dir, and let the views be built anew there",
            )
        migrations[found](path)
        found += 1
        replace_file(file, f"{found}\n")


def _stack_id(file: Path) -> str:
    if file.exists():
        known = file.read_text(encoding="utf-8").strip()
        if known:
            return known
    made = secrets.token_hex(8)
    replace_file(file, f"{made}\n")
    return made


def replace_file(path: Path, text: str) -> None:
    """Replace the content of a file in one step: a reader sees the old or the new, whole."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.new")
    with staged.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)
