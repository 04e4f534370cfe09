"""Encoding and decoding of the parts of Kafka's protocol that confluent-kafka does not offer. Pure.

All requests but one are of "flexible" versions: sizes are unsigned varints (length + 1, 0 for null), and
every structure ends with its tagged fields; none are written, and received ones are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

CLIENT_ID = "distributary"


class BadFrame(ValueError):
    """The bytes are not the expected response."""


class Writer:
    """Encodes values one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def number(self, form: str, value: float) -> Writer:
        """Write a number: ``b`` ``h`` ``i`` ``q`` are integers of 8 to 64 bits, ``d`` is a double."""
        self._parts.append(struct.pack(f">{form}", value))
        return self

    def flag(self, value: bool) -> Writer:
        """Write true or false."""
        return self.number("b", int(value))

    def text(self, value: str | None) -> Writer:
        """Write a string, or null."""
        return self.data(None if value is None else value.encode())

    def data(self, value: bytes | None) -> Writer:
        """Write bytes, or null."""
        self._size(value)
        self._parts.append(value or b"")
        return self

    def each(self, items: Iterable[T] | None, write: Callable[[Writer, T], object]) -> Writer:
        """Write an array, or null."""
        found = None if items is None else list(items)
        self._size(found)
        for item in found or ():
            write(self, item)
        return self

    def end(self) -> Writer:
        """End a structure, with no tagged fields."""
        self._parts.append(b"\0")
        return self

    def written(self) -> bytes:
        """All bytes that were written."""
        return b"".join(self._parts)

    def _size(self, value: bytes | list[T] | None) -> None:
        self._parts.append(varint(0 if value is None else len(value) + 1))


class Reader:
    """Decodes values one after the other; raises BadFrame if they are missing or invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> float:
        """Read a number, in a form of `Writer.number`."""
        (value,) = struct.unpack(f">{form}", self._take(struct.calcsize(f">{form}")))
        return float(value) if form == "d" else int(value)

    def whole(self, form: str) -> int:
        """Read an integer."""
        return int(self.number(form))

    def text(self) -> str | None:
        """Read a string, or null."""
        found = self.data()
        try:
            return None if found is None else found.decode()
        except UnicodeDecodeError:
            raise BadFrame("a string is not UTF-8") from None

    def data(self) -> bytes | None:
        """Read bytes, or null."""
        size = self._varint() - 1
        return None if size < 0 else self._take(size)

    def each(self, read: Callable[[Reader], T]) -> list[T]:
        """Read an array; null becomes an empty one."""
        count = self._varint() - 1
        if count > len(self._data) - self._at:
            raise BadFrame("an array is longer than the response")
        return [read(self) for _ in range(max(0, count))]

    def end(self) -> None:
        """Skip a structure's tagged fields."""
        for _ in range(self._varint()):
            self._varint()
            self._take(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7
            if shift > 35:
                raise BadFrame("a number is too long")

    def _take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise BadFrame("the response is too short")
        self._at += size
        return self._data[self._at - size : self._at]


def varint(value: int) -> bytes:
    """Encode an unsigned integer in groups of seven bits, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def request(api: int, version: int, correlation: int, body: bytes) -> bytes:
    """Build a frame: its size, the header, the body."""
    client = CLIENT_ID.encode()
    head = struct.pack(">hhih", api, version, correlation, len(client)) + client + b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


def response(frame: bytes, correlation: int) -> Reader:
    """Read the header of a response; raises BadFrame if it belongs to another request."""
    reader = Reader(frame)
    if reader.number("i") != correlation:
        raise BadFrame("the response is to another request")
    reader.end()
    return reader


def handshake(correlation: int, mechanism: str) -> bytes:
    """Build the frame that names the login mechanism (request 17), which has no flexible version."""
    texts = [struct.pack(">h", len(raw)) + raw for raw in (CLIENT_ID.encode(), mechanism.encode())]
    frame = struct.pack(">hhi", 17, 1, correlation) + b"".join(texts)
    return struct.pack(">i", len(frame)) + frame


def handshake_error(frame: bytes, correlation: int) -> int:
    """Read the error code of the response to a handshake, 0 for none."""
    reader = Reader(frame)
    if reader.number("i") != correlation:
        raise BadFrame("the response is to another request")
    return reader.whole("h")
