"""Mistakes in a configuration: found one by one, reported together."""

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
        """Note one mistake; ``file`` is the collector's own unless given."""
        self._found.append(Problem(message, key, self.file if file is None else file, line, nearest))

    def finish(self, hint: str = "") -> None:
        """Raise ConfigError if anything was noted, else do nothing."""
        if self._found:
            ordered = sorted(self._found, key=lambda p: (p.line is None, p.line or 0))
            error = ConfigError("\n".join(map(str, ordered)), hint=hint)
            error.problems = tuple(ordered)
            raise error


MAX_WORD = 100
"""Characters of a word that is compared with others: it takes time by their square."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Name the known word that ``word`` is most likely meant to be, or ""."""
    if len(word) > MAX_WORD:
        return ""
    names = list(known)
    by_folded = {name.lower().replace("-", "_"): name for name in reversed(names)}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), by_folded, 1, 0.6)
    return by_folded[found[0]] if found else ""
