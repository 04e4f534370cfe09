"""Private files and folders: secrets (0600), and the folders that contain them (0700)."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from distributary.errors import SecretFileError

UMASK = 0o077
"""The umask of a stack and its child processes."""
_OTHERS = 0o077


def secret_file(path: Path, generate: Callable[[], str]) -> str:
    """Read a secret file, or create it, atomically and with mode 0600.

    Two processes that create it at the same time get the same secret. Surrounding white space is ignored.
    Raises `SecretFileError` for a file that others can read, that is empty, or that cannot be read or
    created.
    """
    try:
        found = read_secret(path)
        if found is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path, generate())
            found = read_secret(path)
    except OSError as error:
        raise _unusable(path, f"cannot be created: {error.strerror or error}") from None
    if found is None:
        raise _unusable(path, "was removed while it was created")
    return found


def read_secret(path: Path) -> str | None:
    """Read a secret file; None if it does not exist. Raises `SecretFileError` as `secret_file` does."""
    try:
        with path.open(encoding="utf-8") as file:
            _check(path, os.fstat(file.fileno()))
            text = file.read().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, f"cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    if not text:
        raise _unusable(path, "is empty", hint=f"Remove it: {path} is created again at the next start")
    return text


def write_private(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Replace the file atomically, with mode 0600 from its first byte on."""
    staged = _staged(path, text, encoding)
    try:
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def private_folder(path: Path) -> bool:
    """Create the folder if it does not exist; return whether it is a folder that only this user can access.

    One that others could read is set to 0700; one that they could write to is not trusted. For folders such
    as /tmp, where another user may have created a folder or a link of that name. Raises OSError if it cannot
    be created.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        return False
    if found.st_mode & _OTHERS:
        path.chmod(0o700)
    return True


def readable_by_others(path: Path) -> bool:
    """Return whether the group or others may read the file; False if it does not exist."""
    try:
        return bool(path.stat().st_mode & 0o044)
    except OSError:
        return False


def _create(path: Path, text: str) -> None:
    """Create the file, unless another process created it meanwhile."""
    staged = _staged(path, text + "\n", "utf-8")
    try:
        # A link fails if the name exists; a rename would replace the file of the other process.
        with contextlib.suppress(FileExistsError):
            os.link(staged, path)
    finally:
        staged.unlink()


def _staged(path: Path, text: str, encoding: str) -> Path:
    staged = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding=encoding, newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    return staged


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unusable(path, "is not a file")
    if found.st_uid not in (os.getuid(), 0):
        raise _unusable(path, "belongs to another user", hint=f"Remove {path}, or change its owner")
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise _unusable(
            path,
            f"can be read or changed by other users (mode {mode:04o})",
            hint=f"Replace the secret if they are not trusted (remove the file), then: chmod 600 {path}",
        )


def _unusable(path: Path, why: str, *, hint: str = "") -> SecretFileError:
    return SecretFileError(f"the secret file {path} {why}", hint=hint)
