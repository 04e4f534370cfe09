"""Which stacks of this user run on this machine, so that commands find them without configuration."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from distributary.config.private_files import private_folder, write_private
from distributary.stack import stack_file

_PREFIX = "stack-"


def folder() -> Path:
    """The folder in which the stacks of this user register."""
    return Path(tempfile.gettempdir()) / f"distributary-{os.getuid()}"


def register(stack: str, data_dir: Path) -> None:
    """Register a running stack; an error in writing is ignored, since the stack runs without it."""
    with contextlib.suppress(OSError):
        if private_folder(folder()):
            write_private(folder() / f"{_PREFIX}{stack}", str(data_dir.absolute()))


def unregister(stack: str) -> None:
    """Remove the entry of a stack."""
    with contextlib.suppress(OSError):
        (folder() / f"{_PREFIX}{stack}").unlink(missing_ok=True)


def running() -> list[Path]:
    """The data folders of the stacks that run now; entries of others are removed."""
    found = []
    try:
        entries = sorted(folder().glob(f"{_PREFIX}*")) if private_folder(folder()) else []
    except OSError:
        return []
    for entry in entries:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            data_dir = Path(entry.read_text(encoding="utf-8"))
            if stack_file.running(data_dir) is not None:
                found.append(data_dir)
            else:
                entry.unlink(missing_ok=True)
    return found
