"""Which stacks of this user run on this machine: so that a command finds one that it was not told of."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from distributary.config.private_files import private_folder, write_private
from distributary.stack import stack_file

_PREFIX = "stack-"


def folder() -> Path:
    """Where the stacks of this user leave notes for each other."""
    return Path(tempfile.gettempdir()) / f"distributary-{os.getuid()}"


def enter(stack: str, data_dir: Path) -> None:
    """Note that a stack runs; a folder that cannot be written to is no reason not to."""
    with contextlib.suppress(OSError):
        if private_folder(folder()):
            write_private(folder() / f"{_PREFIX}{stack}", str(data_dir.absolute()))


def leave(stack: str) -> None:
    """Take the note back."""
    with contextlib.suppress(OSError):
        (folder() / f"{_PREFIX}{stack}").unlink(missing_ok=True)


def running() -> list[Path]:
    """The data folders of the stacks that run now; notes of others are cleared."""
    found = []
    try:
        notes = sorted(folder().glob(f"{_PREFIX}*")) if private_folder(folder()) else []
    except OSError:
        return []
    for note in notes:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            data_dir = Path(note.read_text(encoding="utf-8"))
            if stack_file.running(data_dir) is not None:
                found.append(data_dir)
            else:
                note.unlink(missing_ok=True)
    return found
