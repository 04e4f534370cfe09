"""``like`` patterns, matched without backtracking over what was found.

Between two ``%`` stands a piece of fixed length; taking each piece where it is first found is always right,
so the cost is at most the length of the text times that of the longest piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable

ESCAPE = "\\"
"""What escapes in a canonical pattern."""

ANY = "%"


class BadPattern(ValueError):
    """The pattern cannot be read; ``at`` is the index of the character in it."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


def canonical_pattern(pattern: str, escape: str | None) -> tuple[str, str | None]:
    """Write a pattern so that equal ones are equal text, with ``ESCAPE`` as escape.

    Beside it the text that it stands for, where it has no wildcard.
    Raises BadPattern where the escape character stands before anything but ``%``, ``_`` or itself.
    """
    out: list[str] = []
    plain: list[str] = []
    wild = False
    singles = 0
    many = False

    def flush() -> None:
        nonlocal singles, many
        out.append("_" * singles + "%" * many)
        singles, many = 0, False

    at = 0
    while at < len(pattern):
        char = pattern[at]
        if escape is not None and char == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise BadPattern("the escape character must stand before %, _ or itself", at - 1)
            char = pattern[at]
        elif char in "%_":
            wild = True
            many = many or char == "%"
            singles += char == "_"
            at += 1
            continue
        flush()
        out.append(ESCAPE + char if char in ("%", "_", ESCAPE) else char)
        plain.append(char)
        at += 1
    flush()
    return "".join(out), None if wild else "".join(plain)


def matcher(canonical: str) -> Callable[[str], bool]:
    """Make a function that says whether a whole text is like a canonical pattern."""
    pieces = [re.compile(piece, re.DOTALL) for piece, _ in _pieces(canonical)]
    if len(pieces) == 1:
        whole = pieces[0].fullmatch
        return lambda text: whole(text) is not None
    first, *middle, last = pieces
    tail = _pieces(canonical)[-1][1]

    def test(text: str) -> bool:
        found = first.match(text)
        if found is None:
            return False
        at = found.end()
        for piece in middle:
            found = piece.search(text, at)
            if found is None:
                return False
            at = found.end()
        end = len(text) - tail
        return end >= at and last.match(text, end) is not None

    return test


def _pieces(canonical: str) -> list[tuple[str, int]]:
    """The parts between the ``%`` as expressions, and how many characters each stands for."""
    pieces = [("", 0)]
    chars = iter(canonical)
    for char in chars:
        if char == ANY:
            pieces.append(("", 0))
            continue
        piece, length = pieces[-1]
        part = "." if char == "_" else re.escape(next(chars) if char == ESCAPE else char)
        pieces[-1] = piece + part, length + 1
    return pieces
