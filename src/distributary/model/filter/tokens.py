"""From the text of a filter to its words, each with its place; and errors that point at one."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from distributary.errors import BadQuery

HINT = "write conditions such as: price > 1.5 and (sport in ('tennis', 'darts') or live = true)"

_SHOWN = 160

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*+'|"(?:[^"\\]|\\.)*+")
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<quoted>`(?:[^`]|``)++`)
    | (?P<mark><=|>=|<>|!=|==|[=<>(),.+-])
    | (?P<space>\s+)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """``kind`` is text, number, word, quoted (a name), mark or end; ``text`` is what it stands for."""

    kind: str
    text: str
    at: int
    end: int

    @property
    def word(self) -> str:
        """What a keyword is told by; empty for what is no bare word and no mark."""
        return self.text.lower() if self.kind in ("word", "mark") else ""


def bad(text: str, at: int, why: str, hint: str = HINT, what: str = "filter") -> BadQuery:
    """Make the error for a place in a filter, or in what else is written with the same words."""
    start = max(0, min(at - _SHOWN // 2, len(text) - _SHOWN))
    shown = text[start : start + _SHOWN]
    part = f"{'…' * (start > 0)}{shown}{'…' * (start + _SHOWN < len(text))}"
    return BadQuery(f"{why} at character {at + 1} of the {what} {part!r}", hint=hint)


def tokens(text: str, what: str = "filter") -> list[Token]:
    """Cut a filter into words, with an ``end`` behind them. Raises BadQuery."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise bad(text, error.start, "half a character (a lone surrogate)", what=what) from None
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise bad(text, at, _unread(text[at]), what=what)
        kind = match.lastgroup
        assert kind is not None
        if kind != "space":
            found.append(Token(kind, _meaning(text, kind, match[0], at), at, match.end()))
        at = match.end()
    found.append(Token("end", "", len(text), len(text)))
    return found


def _meaning(text: str, kind: str, word: str, at: int) -> str:
    if kind == "quoted":
        return word[1:-1].replace("``", "`")
    if kind != "text":
        return word
    if word[0] == "'":
        return word[1:-1].replace("''", "'")
    try:
        value = str(json.loads(word, strict=False))
        value.encode()
    except UnicodeEncodeError:
        raise bad(text, at, "half a character (a lone surrogate) in the text") from None
    except ValueError:
        raise bad(
            text, at, "an escape that JSON does not know, in the text", "double the \\ for itself"
        ) from None
    return value


def _unread(char: str) -> str:
    if char in "'\"":
        return f"a text that has no closing {char}"
    if char == "`":
        return "a name that has no closing `"
    return f"{char!r} cannot be read"
