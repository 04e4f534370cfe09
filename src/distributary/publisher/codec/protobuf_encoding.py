"""The Protobuf encoding, as far as the client protocol needs it. Pure.

Writing follows proto3: values that equal their default are left out. Reading follows it too: the last value
of a field wins, messages that come twice are merged, and fields that are not in the schema are ignored.
Whatever is truncated, too long or of the wrong kind raises ``Malformed`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_VARINT, _FIXED64, _BLOCK, _FIXED32 = 0, 1, 2, 5
_SMALL = tuple(bytes((n,)) for n in range(128))
_MOST_BYTES = 10


class Malformed(ValueError):
    """The bytes are not a valid message."""


# --- writing --------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Write a number that is not negative, seven bits a byte, lowest first."""
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Write a number or a flag; zero is the default and left out."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def block(field: int, data: bytes) -> bytes:
    """Write bytes or a message, also an empty one: its presence has a meaning."""
    return varint(field << 3 | _BLOCK) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """Write a string; an empty one is the default and left out."""
    return block(field, value.encode()) if value else b""


def delimited(message: bytes) -> bytes:
    """Put a message's length before it, so that several may follow each other."""
    return varint(len(message)) + message


# --- reading --------------------------------------------------------------------------------------------

Range = tuple[int, int]
Kind = Range | type[bool] | type[str] | type[bytes] | Mapping[int, tuple[str, Any]]
Schema = Mapping[int, tuple[str, Kind]]
"""The fields to read: by number, a name and a kind. A range is a whole number within it (one that
begins below zero is signed), another schema is a message."""


def messages(frame: bytes) -> Iterator[bytes]:
    """Split a frame into its messages. Raises Malformed at the first that is truncated."""
    at = 0
    while at < len(frame):
        size, at = _varint(frame, at)
        if size > len(frame) - at:
            raise Malformed("a message is truncated")
        yield frame[at : at + size]
        at += size


def read(schema: Schema, message: bytes, into: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read the fields that a schema names. Raises Malformed."""
    found: dict[str, Any] = {} if into is None else into
    for field, value in _fields(message):
        name, kind = schema.get(field, ("", None))
        if kind is None:
            continue
        if isinstance(value, int):
            if kind is bool:
                found[name] = value != 0
            elif isinstance(kind, tuple):
                found[name] = _within(kind, value)
        elif kind is str:
            try:
                found[name] = value.decode()
            except UnicodeDecodeError:
                raise Malformed(f"{name} is not UTF-8") from None
        elif kind is bytes:
            found[name] = value
        elif isinstance(kind, Mapping):
            found[name] = read(kind, value, found.get(name))
    return found


def _within(kind: Range, value: int) -> int:
    low, high = kind
    if low < 0 and value >> 63:
        value -= 1 << 64
    if not low <= value <= high:
        raise Malformed(f"{value} is out of range")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        field, kind = tag >> 3, tag & 7
        if not 0 < field < 1 << 29:
            raise Malformed("a field has no number")
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield field, value
            continue
        if kind == _BLOCK:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise Malformed("groups are not supported")
        if size > len(message) - at:
            raise Malformed("a field is truncated")
        if kind == _BLOCK:
            yield field, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _MOST_BYTES]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            if value >> 64:
                break
            return value, at + index + 1
    raise Malformed("a number is truncated or too long")
