"""WebSocket frames, made by hand so that one can be written to many connections."""

from __future__ import annotations

import zlib

import msgspec

from distributary.publisher.codec.codes import Ending

Pub = tuple[int, bytes]
"""A publication: its number and its data as JSON."""

encode = msgspec.json.Encoder().encode

TEXT = 0x81
BINARY = 0x82
_CLOSE = 0x88
_COMPRESSED = 0x40
_TAIL = b"\x00\x00\xff\xff"

LEVEL = 3
ROOM = 65_536
"""How many bytes may wait for a reader who is sent the newest rows: what waits is no longer the newest."""

SMALL = 128
"""Shorter payloads are not compressed: it would make few of them shorter."""


class TooBig(Exception):
    """What a client sent is larger than is allowed."""


def frame(first: int, payload: bytes) -> bytes:
    """Wrap a payload into one unmasked frame; ``first`` is its first byte."""
    return _header(first, len(payload)) + payload


def deflated(first: int, payload: bytes) -> bytes:
    """Wrap a payload into one compressed frame.

    No state is kept from one message to the next, so that the same bytes serve every connection.
    """
    if len(payload) < SMALL:
        return frame(first, payload)
    deflate = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
    body = deflate.compress(payload) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return frame(first | _COMPRESSED, body.removesuffix(_TAIL))


def inflate(payload: bytes, limit: int) -> bytes:
    """Undo the compression of one message. Raises TooBig beyond ``limit`` bytes, ValueError on nonsense."""
    inflating = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        found = inflating.decompress(payload + _TAIL, limit + 1)
    except zlib.error as error:
        raise ValueError("not compressed data") from error
    if len(found) > limit:
        raise TooBig
    return found


def close_frame(ending: Ending) -> bytes:
    """Make the frame that closes a WebSocket."""
    return frame(_CLOSE, ending.code.to_bytes(2, "big") + ending.reason.encode()[:123])


def _header(first: int, size: int) -> bytes:
    if size < 126:
        return bytes((first, size))
    if size < 65536:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")


def one_line(data: bytes) -> bytes:
    """Keep data on one line: where messages are told apart by newlines.

    Inside a JSON text a raw line break can only be white space between tokens.
    """
    if b"\n" in data or b"\r" in data:
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
    return data
