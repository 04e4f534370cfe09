"""Small files that are never half written, and the ends of large ones."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Put ``text`` in the place of the file in one step: a reader sees the old or the new, whole."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.new")
    with staged.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)


def tail(path: Path, lines: int = 20, since: int = 0) -> list[str]:
    """The last lines of a log, of what was written from byte ``since`` on; empty when there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = since if since <= size else 0  # it was rotated meanwhile
            file.seek(max(start, size - 64 * 1024))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


def rotate(path: Path, limit: int = 10 << 20) -> None:
    """Set a log aside as ``<name>.1`` once it is larger than ``limit``."""
    try:
        if path.stat().st_size > limit:
            path.replace(path.with_name(path.name + ".1"))
    except OSError:
        pass
