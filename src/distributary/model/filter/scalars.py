"""Scalars of rows and filters: exact numbers, strings, true and false.

Numbers are never floats: a short integer is an int, everything else a Decimal, and the two compare exactly.
JSON's true and false become ``TRUE`` and ``FALSE``, which equal no number (Python's own would equal 1 and 0).
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation

import msgspec

Number = int | Decimal

Value = str
"""A scalar as a string: equal for equal scalars.

``s`` + text, ``n`` + canonical number, ``true``, ``false`` or ``null``.
"""


class Sentinel:
    """A value that is equal only to itself."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


TRUE = Sentinel("true")
FALSE = Sentinel("false")
OTHER = Sentinel("other")
"""An object, an array, or a number out of range (an exponent of twenty digits)."""

Scalar = str | int | Decimal | Sentinel | None
"""The value of a field, for comparisons; None is null, or a missing field."""

_SENTINELS: dict[bytes, Sentinel | None] = {b"true": TRUE, b"false": FALSE, b"null": None}
_INT_DIGITS = 18
_QUOTE = ord('"')


def scalar(raw: bytes | msgspec.Raw) -> Scalar:
    """Parse the JSON of a field."""
    text = bytes(raw)
    head = text[0]
    if head == _QUOTE:
        return text[1:-1].decode() if b"\\" not in text else str(json.loads(text))
    if head in b"-0123456789":
        value = read_number(text.decode())
        return OTHER if value is None else value
    return _SENTINELS.get(text, OTHER)


def read_number(text: str) -> Number | None:
    """Parse a JSON number exactly; None if its exponent is out of range."""
    if len(text) <= _INT_DIGITS and (text.isdigit() or (text[0] == "-" and text[1:].isdigit())):
        return int(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def number(text: str) -> str:
    """Return the canonical form of a number: equal for ``1.50``, ``15e-1`` and ``1.5``."""
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
    if exponent > 20:
        out = f"{bare}e{exponent}"
    elif exponent >= 0:
        out = bare + "0" * exponent
    elif -exponent < len(bare):
        out = bare[:exponent] + "." + bare[exponent:]
    elif -exponent < 40:
        out = "0." + "0" * (-exponent - len(bare)) + bare
    else:
        out = f"{bare}e{exponent}"
    return "-" + out if sign else out


def canonical(raw: bytes | msgspec.Raw) -> Value | None:
    """Return the canonical form of a JSON scalar, equal for equal values; None for objects and arrays."""
    value = scalar(raw)
    if value is OTHER:
        return None
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, (int, Decimal)):
        return "n" + number(str(value))
    return "null" if value is None else repr(value)
