"""Say how far a fetch is: one line that renews itself on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO


class Progress:
    """Counts the jars of one set as they arrive and writes to ``stream`` (standard error by default)."""

    def __init__(self, label: str, count: int, size: int, stream: TextIO | None = None) -> None:
        self._label, self._count, self._size = label, count, size
        self._stream = sys.stderr if stream is None else stream
        self._tty = self._stream.isatty()
        self._seen = self._done = self._bytes = 0
        self._quarter = 0

    def start(self) -> None:
        """Say what is about to be fetched."""
        self._line(f"{self._label}: fetching {self._count} jars, {_mb(self._size)} MB")

    def seen(self) -> None:
        """One more jar was looked up; nothing of it has arrived yet."""
        self._seen += 1
        if self._tty:
            self._renew(f"{self._label}: looked up {self._seen}/{self._count}")

    def add(self, size: int) -> None:
        """One more jar of ``size`` bytes has arrived."""
        self._done += 1
        self._bytes += size
        text = f"{self._label}: {self._done}/{self._count} jars, {_mb(self._bytes)}/{_mb(self._size)} MB"
        if self._tty:
            self._renew(text)
        elif self._done * 4 // max(self._count, 1) > self._quarter:
            self._quarter = self._done * 4 // max(self._count, 1)
            self._line(text)

    def note(self, text: str) -> None:
        """Say something else, on a line of its own."""
        self.close()
        self._line(f"{self._label}: {text}")

    def close(self) -> None:
        """Wipe the line that renews itself; harmless when there is none."""
        if self._tty:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def restart(self) -> None:
        """Count from nothing again: a new attempt begins."""
        self._seen = self._done = self._bytes = self._quarter = 0

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def _renew(self, text: str) -> None:
        self._stream.write("\r\x1b[K" + text)
        self._stream.flush()


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}"
