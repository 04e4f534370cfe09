"""A query: which rows of a view a subscriber wants. Equal queries are one.

Two forms: a list of row keys, or ``field = literal`` joined by ``and`` over
top-level fields. No condition at all asks for the whole view.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import msgspec

from distributary.errors import BadQuery

MAX_TEXT = 16_384
MAX_KEYS = 10_000

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<op>=|==)
    )""",
    re.VERBOSE,
)

Value = str
"""A scalar in comparable form: ``s`` + text, ``n`` + canonical number, ``true``, ``false`` or ``null``."""


def canonical(raw: bytes | msgspec.Raw) -> Value | None:
    """Bring a JSON scalar's text into a form where equal values are equal text.

    Objects and arrays give None: they equal nothing.
    """
    text = bytes(raw)
    head = text[:1]
    if head == b'"':
        return "s" + (text[1:-1].decode() if b"\\" not in text else str(json.loads(text)))
    if head in b"-0123456789" and head:
        return "n" + number(text.decode())
    if text in (b"true", b"false", b"null"):
        return text.decode()
    return None


def number(text: str) -> str:
    """Give equal numbers equal text, exactly: ``1.50``, ``15e-1`` and ``1.5`` are one."""
    if len(text) < 16 and text.isdigit():
        return text.lstrip("0") or "0"
    value = Decimal(text)
    if value == 0:
        return "0"
    sign, digits, exponent = value.as_tuple()
    figures = "".join(map(str, digits))
    bare = figures.rstrip("0")
    assert isinstance(exponent, int)
    exponent += len(figures) - len(bare)
    tail = f"e{exponent}" if exponent > 0 and exponent > 20 else "0" * max(exponent, 0)
    if exponent >= 0:
        out = bare + tail
    elif -exponent < len(bare):
        out = bare[:exponent] + "." + bare[exponent:]
    elif -exponent < 40:
        out = "0." + "0" * (-exponent - len(bare)) + bare
    else:
        out = f"{bare}e{exponent}"
    return "-" + out if sign else out


@dataclass(frozen=True, slots=True)
class Query:
    """A filter in normal form; make one with ``parse`` or ``of_keys``."""

    view: str
    keys: tuple[str, ...] | None = None
    equals: tuple[tuple[str, Value], ...] = ()

    @property
    def text(self) -> str:
        """The normal form; equal queries have equal text, and ``load`` reads it back."""
        body: dict[str, object] = {"keys": list(self.keys)} if self.keys is not None else {}
        if self.equals:
            body["equals"] = [list(pair) for pair in self.equals]
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False)

    @property
    def id(self) -> str:
        """The hash of view and normal form."""
        return hashlib.sha256(f"{self.view}\n{self.text}".encode()).hexdigest()[:16]

    @property
    def channel(self) -> str:
        """The name under which all who ask this query share its changes."""
        return f"q:{self.view}:{self.id}"

    @classmethod
    def load(cls, view: str, text: str) -> Query:
        """Read a normal form back."""
        body = json.loads(text)
        keys = body.get("keys")
        return cls(
            view,
            tuple(keys) if keys is not None else None,
            tuple((field, value) for field, value in body.get("equals", ())),
        )

    @classmethod
    def of_keys(cls, view: str, keys: Iterable[str]) -> Query:
        """Ask for rows by key."""
        wanted = tuple(sorted(set(keys)))
        if not wanted:
            raise BadQuery("a list of keys must hold at least one key")
        if len(wanted) > MAX_KEYS:
            raise BadQuery(f"{len(wanted)} keys are too many", hint=f"ask for at most {MAX_KEYS}")
        for key in wanted:
            if not isinstance(key, str):
                raise BadQuery(f"a row key is text, not {key!r}")
        return cls(view, wanted)

    @classmethod
    def parse(cls, view: str, where: str | None) -> Query:
        """Read ``field = literal [and …]``; errors name the place."""
        if where is None or not where.strip():
            return cls(view)
        if len(where) > MAX_TEXT:
            raise BadQuery(f"a filter of {len(where)} characters is too long", hint=f"at most {MAX_TEXT}")
        found: dict[str, Value] = {}
        tokens = _tokens(where)
        while True:
            kind, word, place = _take(tokens, where)
            if kind not in ("word", "quoted"):
                raise _bad(where, place, "expected a field's name")
            field = word if kind == "word" else word[1:-1].replace("``", "`")
            kind, _, place = _take(tokens, where)
            if kind != "op":
                raise _bad(where, place, "expected =")
            kind, word, place = _take(tokens, where)
            value = _literal(kind, word)
            if value is None:
                raise _bad(where, place, "expected a text in quotes, a number, true, false or null")
            if found.setdefault(field, value) != value:
                raise _bad(where, place, f"{field} cannot equal two things")
            kind, word, place = _take(tokens, where, end=True)
            if kind == "end":
                break
            if kind != "word" or word.lower() != "and":
                raise _bad(where, place, "expected and")
        return cls(view, None, tuple(sorted(found.items())))

    def matches(self, key: str, row: Mapping[str, msgspec.Raw]) -> bool:
        """Say whether a row belongs to this query. The reference: indexes must agree with it.

        A field that is missing equals only ``null``.
        """
        if self.keys is not None and key not in self.keys:
            return False
        for field, wanted in self.equals:
            raw = row.get(field)
            if (canonical(raw) if raw is not None else "null") != wanted:
                return False
        return True


def _literal(kind: str, word: str) -> Value | None:
    if kind == "string":
        if word[0] == "'":
            return "s" + word[1:-1].replace("''", "'")
        try:
            return "s" + str(json.loads(word))
        except ValueError:
            return None
    if kind == "number":
        return "n" + number(word)
    if kind == "word" and word.lower() in ("true", "false", "null"):
        return word.lower()
    return None


def _tokens(text: str) -> list[tuple[str, str, int]]:
    out: list[tuple[str, str, int]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise _bad(text, at, "cannot be read")
        assert match.lastgroup is not None
        out.append((match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)))
        at = match.end()
    return out[::-1]


def _take(tokens: list[tuple[str, str, int]], text: str, end: bool = False) -> tuple[str, str, int]:
    if tokens:
        return tokens.pop()
    if end:
        return ("end", "", len(text))
    raise _bad(text, len(text), "ends too soon")


def _bad(text: str, at: int, why: str) -> BadQuery:
    return BadQuery(
        f"the filter {text!r} {why} at character {at + 1}",
        hint="write: field = literal and field = literal …",
    )
