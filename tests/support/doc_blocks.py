"""Reads the fenced blocks of the pages, with the comment before each that says what a test does with it.

<!-- file: NAME -->                 the block is written to that file
<!-- run -->                        it is run, and must succeed
<!-- run: in the background -->     it is started, and runs until the end of the page
<!-- run: beside the next -->       it is started, and must end by itself after the next block
<!-- run: until it shows -->        it is run again until it prints what the next block shows
<!-- run: needs curl -->            it is run where there is curl
<!-- shows -->                      lines that the last run printed, in this order; … stands for anything
<!-- shows, in any order -->
<!-- shows, of the one beside -->
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- ((?:file|run|shows)\b.*?) -->\n\Z")


class Block(NamedTuple):
    """A fenced block; ``mark`` is '' when nothing is said of it."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page of the repository, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        mark = _MARK.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1], match[2], mark[1] if mark else ""))
    return found


def missing(shown: str, printed: str, *, ordered: bool = True) -> str:
    """The first line that should be there and is not; '' when all are."""
    lines = printed.splitlines()
    at = 0
    for wanted in shown.splitlines():
        pattern = re.compile(".*".join(map(re.escape, wanted.split("…"))))
        places = [n for n, line in enumerate(lines) if pattern.search(line) and (not ordered or n >= at)]
        if not places:
            return wanted
        at = places[0] + 1
    return ""
