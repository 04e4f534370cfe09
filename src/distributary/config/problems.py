"""Errors in a configuration: found one by one, reported together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from distributary.errors import ConfigError, Problem


class Problems:
    """Collects problems; `finish` raises them all in one ConfigError, in the order of the file."""

    def __init__(self, file: str = "") -> None:
        self.file = file
        self._found: list[Problem] = []

    def add(
        self,
        message: str,
        *,
        key: str = "",
        line: int | None = None,
        nearest: str = "",
        file: str | None = None,
    ) -> None:
        """Add one error; ``file`` is the collector's own unless given."""
        self._found.append(Problem(message, key, self.file if file is None else file, line, nearest))

    def finish(self, hint: str = "") -> None:
        """Raise ConfigError if there are any errors."""
        if self._found:
            ordered = sorted(self._found, key=lambda p: (p.line is None, p.line or 0))
            error = ConfigError("\n".join(map(str, ordered)), hint=hint)
            error.problems = tuple(ordered)
            raise error


MAX_WORD = 100
"""The longest word that is compared with others: the time grows with the square of its length."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word closest to ``word``, or ""."""
    if len(word) > MAX_WORD:
        return ""
    names = list(known)
    by_folded = {name.lower().replace("-", "_"): name for name in reversed(names)}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), by_folded, 1, 0.6)
    return by_folded[found[0]] if found else ""
