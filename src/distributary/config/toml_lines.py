"""The lines of keys in TOML. tomllib keeps no positions, so the text is scanned once more.

The scan is for messages only: it relies on tomllib having accepted the text, and where it is not exact
(inline tables) it returns the line of the nearest enclosing key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Path = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]\]?\s*(?:#.*)?")
_ENTRY = re.compile(rf"\s*({_KEYS})\s*=(.*)", re.DOTALL)
_ONE = re.compile(_PART)
_STRING = re.compile(r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*|[\[\]{}]')


class Lines:
    """The first line (from 1) of every section and key of a TOML document."""

    def __init__(self, text: str) -> None:
        self._at: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._scan(text)

    def find(self, path: Path) -> int | None:
        """Return the line of ``path``, or of its longest prefix that has one, or None."""
        for end in range(len(path), 0, -1):
            line = self._at.get(path[:end])
            if line is not None:
                return line
        return None

    def _scan(self, text: str) -> None:
        section: Path = ()
        for number, line in _statements(text):
            header = _HEADER.fullmatch(line)
            if header:
                section = self._enter(_split(header[2]), array=header[1] == "[[")
                self._at.setdefault(section, number)
                self._at.setdefault(tuple(p for p in section if isinstance(p, str)), number)
                continue
            entry = _ENTRY.fullmatch(line)
            if entry:
                path = section
                for part in _split(entry[1]):
                    path = (*path, part)
                    self._at.setdefault(path, number)

    def _enter(self, names: list[str], *, array: bool) -> Path:
        path: Path = ()
        for index, name in enumerate(names):
            path = (*path, name)
            if array and index == len(names) - 1:
                self._counts[path] = self._counts.get(path, -1) + 1
            if path in self._counts:
                path = (*path, self._counts[path])
        return path


def _split(keys: str) -> list[str]:
    parts = _ONE.findall(keys)
    return [part[1:-1] if part[0] in "\"'" else part for part in parts]


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that begin a statement: not those inside a long string, array or inline table."""
    quote = ""
    depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        begins = not quote and not depth
        if begins:
            yield number, line
            if _HEADER.fullmatch(line):
                continue
        rest = line
        while rest:
            if quote:
                _, closed, rest = _after_quote(rest, quote)
                quote = "" if closed else quote
                continue
            token = _STRING.search(rest)
            if token is None:
                break
            rest = rest[token.end() :]
            if token[0] in ('"""', "'''"):
                quote = token[0]
            elif token[0] in "[{":
                depth += 1
            elif token[0] in "]}":
                depth = max(0, depth - 1)


def _after_quote(text: str, quote: str) -> tuple[str, bool, str]:
    at = 0
    while at < len(text):
        if quote == '"""' and text[at] == "\\":
            at += 2
        elif text.startswith(quote, at):
            return text[:at], True, text[at + 3 :]
        else:
            at += 1
    return text, False, ""
