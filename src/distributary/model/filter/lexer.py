"""Cuts a filter into tokens, and reads its fields and literals one by one; errors point at a token."""

from __future__ import annotations

import json
import re
import sys
from typing import NamedTuple

from distributary.errors import BadQuery
from distributary.model.filter.scalars import read_number
from distributary.model.filter.syntax_tree import Literal, Now, Path, Timestamp
from distributary.model.filter.times import MAX_OFFSET_MS, parse_interval, parse_time

HINT = "write conditions such as: price > 1.5 and (sport in ('tennis', 'darts') or live = true)"

_SHOWN = 160

_TOKEN = re.compile(
    r"""(?P<string>'(?:[^']|'')*+'|"(?:[^"\\]|\\.)*+")
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<quoted>`(?:[^`]|``)++`)
    | (?P<mark><=|>=|<>|!=|==|[=<>(),.+-])
    | (?P<space>\s+)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """``kind`` is string, number, word, quoted (a name), mark or end; ``text`` is its value."""

    kind: str
    text: str
    at: int
    end: int

    @property
    def word(self) -> str:
        """The token as a keyword; empty unless it is a bare word or a mark."""
        return self.text.lower() if self.kind in ("word", "mark") else ""


def bad(text: str, at: int, why: str, hint: str = HINT, what: str = "filter") -> BadQuery:
    """Return the error at a character of a filter, or of another string with the same tokens."""
    start = max(0, min(at - _SHOWN // 2, len(text) - _SHOWN))
    shown = text[start : start + _SHOWN]
    part = f"{'…' * (start > 0)}{shown}{'…' * (start + _SHOWN < len(text))}"
    return BadQuery(f"{why} at character {at + 1} of the {what} {part!r}", hint=hint)


def tokens(text: str, what: str = "filter") -> list[Token]:
    """Split a filter into tokens, followed by an ``end``. Raises BadQuery."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise bad(text, error.start, "invalid Unicode (a lone surrogate)", what=what) from None
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
    if kind != "string":
        return word
    if word[0] == "'":
        return word[1:-1].replace("''", "'")
    try:
        value = str(json.loads(word, strict=False))
        value.encode()
    except UnicodeEncodeError:
        raise bad(text, at, "invalid Unicode (a lone surrogate) in the string") from None
    except ValueError:
        raise bad(text, at, "invalid escape sequence in the string", "write \\\\ for a backslash") from None
    return value


def _unread(char: str) -> str:
    if char in "'\"":
        return f"a string without a closing {char}"
    if char == "`":
        return "a name without a closing `"
    return f"unexpected {char!r}"


MAX_NAMES = 16

LITERAL = "a string in quotes, a number, true, false, null, timestamp '…' or now()"

_RESERVED = {"and", "or", "not", "in", "between", "like", "is", "null", "true", "false"}


class TokenReader:
    """Reads the tokens of a filter one by one; raises BadQuery for an unexpected one."""

    def __init__(self, text: str, now: bool, what: str = "filter") -> None:
        self.text = text
        self._now = now
        self._what = what
        self._tokens = tokens(text, what)
        self._at = 0

    @property
    def peek(self) -> Token:
        """The next token, without taking it."""
        return self._tokens[self._at]

    def take(self) -> Token:
        """Take the next token."""
        token = self._tokens[self._at]
        self._at += 1
        return token

    def skip(self, word: str) -> bool:
        """Take the next token if it is this keyword."""
        if self.peek.word != word:
            return False
        self._at += 1
        return True

    def bad(self, why: str, hint: str) -> BadQuery:
        """Return an error at the next token."""
        return bad(self.text, self.peek.at, why, hint, self._what)

    def expected(self, what: str, hint: str = "") -> BadQuery:
        """Return an error that describes what was expected instead of the next token."""
        token = self.peek
        word = self.text[token.at : token.end][:40]
        why = f"expected {what}, but {f'the {self._what} ends' if token.kind == 'end' else f'found {word}'}"
        return bad(self.text, token.at, why, hint or HINT, self._what)

    def is_field(self) -> bool:
        """Return whether a field is next. ``now`` and ``timestamp`` are fields too, unless used as times."""
        token = self.peek
        if token.kind != "word":
            return token.kind == "quoted"
        after = self._tokens[self._at + 1]  # every token is followed by another one, at least the end
        is_time = (token.word == "now" and after.word == "(") or (
            token.word == "timestamp" and after.kind == "string"
        )
        return token.word not in _RESERVED and not is_time

    def path(self) -> Path:
        """Read a field."""
        names = [sys.intern(self.take().text)]
        while self.skip("."):
            if self.peek.kind not in ("word", "quoted"):
                raise self.expected("the name of a field")
            if len(names) == MAX_NAMES:
                raise self.bad("nested too deeply", f"a field has at most {MAX_NAMES} names")
            names.append(sys.intern(self.take().text))
        return tuple(names)

    def value(self, wanted: str, hint: str) -> Literal:
        """Read a literal that is not null."""
        start = self.peek
        value = self.literal(wanted)
        if value is None:
            raise bad(self.text, start.at, "null is not allowed here", hint)
        return value

    def literal(self, wanted: str) -> Literal | None:
        """Read a literal; None is null."""
        token = self.peek
        if self.is_field():
            why = f"expected {wanted}, not the name of a field,"
            raise bad(self.text, token.at, why, "compare a field with a literal; put strings in quotes")
        if token.kind == "string":
            return self.take().text
        if token.kind == "number" or token.word == "-":
            return self._number(wanted)
        if token.word in ("true", "false"):
            return self.take().word == "true"
        if token.word == "null":
            self._at += 1
            return None
        if token.word in ("timestamp", "now"):
            return self._time()
        raise self.expected(wanted)

    def _number(self, wanted: str) -> Literal:
        start = self.peek
        sign = "-" if self.skip("-") else ""
        if self.peek.kind != "number":
            raise self.expected(wanted if not sign else "a number")
        value = read_number(sign + self.take().text)
        if value is None:
            raise bad(self.text, start.at, "a number out of range", "use a smaller exponent")
        return value

    def _time(self) -> Literal:
        start = self.take()
        if start.word == "now":
            self._at += 1
            if not self.skip(")"):
                raise self.expected(")")
            if not self._now:
                why = "now() (which is not supported here)"
                raise bad(self.text, start.at, why, "compare with timestamp '2026-01-31T08:00:00Z' for now")
            return Now(self._offset())
        time_ms = parse_time(self.peek.text)
        if time_ms is None:
            raise self.expected("an ISO 8601 time such as '2026-01-31T08:00:00Z'")
        self._at += 1
        offset = self._offset()
        return Timestamp(time_ms + offset if offset else time_ms)

    def _offset(self) -> int:
        total = 0
        while self.peek.word in ("+", "-"):
            sign = -1 if self.take().word == "-" else 1
            start = self.peek
            if self.skip("interval"):
                text = self.take().text if self.peek.kind == "string" else ""
            else:
                text = self.take().text if self.peek.kind == "number" else ""
                text += self.take().text if text and self.peek.kind == "word" else ""
            duration = parse_interval(text)
            if duration is None:
                why = "expected a duration"
                raise bad(self.text, start.at, why, "write 90s, 5m, 1h, 2d, 500ms or interval '2 hours'")
            total += sign * duration
            if abs(total) > MAX_OFFSET_MS:
                raise bad(self.text, start.at, "a duration of over 100 years", "use a shorter one")
        return total
