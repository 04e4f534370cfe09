"""WebSocket frames, written by hand so that one can be sent to many connections."""

from __future__ import annotations

import zlib

from distributary.publisher.codec.codes import Ending

TEXT = 0x81
BINARY = 0x82
_CLOSE = 0x88
_COMPRESSED = 0x40
_TAIL = b"\x00\x00\xff\xff"

LEVEL = 3
SMALL = 128
"""Payloads below this size are not compressed: few of them would get smaller."""


class TooBig(Exception):
    """A message of a client exceeds the limit."""


def frame(first: int, payload: bytes) -> bytes:
    """Wrap a payload into one unmasked frame; ``first`` is its first byte."""
    return _header(first, len(payload)) + payload


def deflated(first: int, payload: bytes) -> bytes:
    """Wrap a payload into one compressed frame.

    Every message is compressed by itself, so that the same bytes can be sent to every connection.
    """
    if len(payload) < SMALL:
        return frame(first, payload)
    deflate = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
    body = deflate.compress(payload) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return frame(first | _COMPRESSED, body.removesuffix(_TAIL))


def inflate(payload: bytes, limit: int) -> bytes:
    """Decompress one message. Raises TooBig beyond ``limit`` bytes, ValueError for invalid data."""
    inflating = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        found = inflating.decompress(payload + _TAIL, limit + 1)
    except zlib.error as error:
        raise ValueError("not compressed data") from error
    if len(found) > limit:
        raise TooBig
    return found


def close_frame(ending: Ending) -> bytes:
    """Write the frame that closes a WebSocket."""
    return frame(_CLOSE, ending.code.to_bytes(2, "big") + ending.reason.encode()[:123])


def _header(first: int, size: int) -> bytes:
    if size < 126:
        return bytes((first, size))
    if size < 65536:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")
