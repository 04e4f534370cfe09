"""``like`` patterns, matched without backtracking.

Between two ``%`` there is a piece of fixed length. The first match of each piece is always right, so the cost
is at most the length of the string times that of the longest piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable

ESCAPE = "\\"
"""The escape character of a canonical pattern."""

ANY = "%"


class BadPattern(ValueError):
    """The pattern is invalid; ``at`` is the index of the character in it."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


def canonical_pattern(pattern: str, escape: str | None) -> tuple[str, str | None]:
    """Return the canonical form of a pattern, with ``ESCAPE`` as its escape character: equal for equal
    patterns.

    Also return the string that it matches, if it has no wildcard. Raises BadPattern if the escape character
    precedes anything but ``%``, ``_`` or itself.
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
                raise BadPattern("the escape character must precede %, _ or itself", at - 1)
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
    """Return a function that tests whether a whole string matches a canonical pattern."""
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
    """Return the parts between the ``%`` as regular expressions, with how many characters each matches."""
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
