"""Bytes on the wire: WebSocket frames, and the replies and pushes of the Centrifuge protocol.

Rows and values are spliced in as they are; nothing is decoded and encoded again, so numbers keep their text.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from distributary.publish.codes import Ending, Refusal

Pub = tuple[int, bytes]
"""A publication: its number and its data as JSON."""

encode = msgspec.json.Encoder().encode

_FIN_TEXT = 0x81
_FIN_CLOSE = 0x88


def text_frame(payload: bytes) -> bytes:
    """Wrap a payload into one unmasked WebSocket text frame."""
    return _header(_FIN_TEXT, len(payload)) + payload


def close_frame(ending: Ending) -> bytes:
    """Make the frame that closes a WebSocket."""
    body = ending.code.to_bytes(2, "big") + ending.reason.encode()[:123]
    return _header(_FIN_CLOSE, len(body)) + body


def _header(first: int, size: int) -> bytes:
    if size < 126:
        return bytes((first, size))
    if size < 65536:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")


PING = text_frame(b"{}")


def one_line(data: bytes) -> bytes:
    """Keep data on one line: a frame's messages are told apart by newlines.

    Inside a JSON text a raw line break can only be white space between tokens.
    """
    if b"\n" in data or b"\r" in data:
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
    return data


def reply(id: int, body: bytes) -> bytes:
    """Answer command ``id``; ``body`` is JSON text for inside an object."""
    return b'{"id":%d,%b}' % (id, body)


def error(refusal: Refusal) -> bytes:
    """Make the body of a reply that refuses."""
    temporary = b',"temporary":true' if refusal.temporary else b""
    return b'"error":{"code":%d,"message":%b%b}' % (refusal.code, encode(refusal.message), temporary)


def connected(client: str, version: str, ping: int) -> bytes:
    """Make the body of the reply to ``connect``."""
    return b'"connect":{"client":%b,"version":%b,"ping":%d,"pong":true}' % (
        encode(client),
        encode(version),
        ping,
    )


def subscribed(epoch: str, offset: int, data: bytes, *, recovering: bool) -> bytes:
    """Make the body of the reply to ``subscribe`` that carries the initial state."""
    was = b'"was_recovering":true,"recovered":false,' if recovering else b""
    return b'"subscribe":{"recoverable":true,"positioned":true,"epoch":%b,"offset":%d,%b"data":%b}' % (
        encode(epoch),
        offset,
        was,
        one_line(data),
    )


def recovered(epoch: str, offset: int, pubs: Iterable[Pub]) -> bytes:
    """Make the body of the reply to ``subscribe`` that carries what was missed."""
    return (
        b'"subscribe":{"recoverable":true,"positioned":true,"epoch":%b,"offset":%d,'
        b'"was_recovering":true,"recovered":true,"publications":%b}'
        % (encode(epoch), offset, publications(pubs))
    )


def history(epoch: str, offset: int, pubs: Iterable[Pub]) -> bytes:
    """Make the body of the reply to ``history``."""
    return b'"history":{"publications":%b,"epoch":%b,"offset":%d}' % (
        publications(pubs),
        encode(epoch),
        offset,
    )


def publications(pubs: Iterable[Pub]) -> bytes:
    """Write publications as a JSON array."""
    return b"[" + b",".join(b'{"data":%b,"offset":%d}' % (one_line(data), n) for n, data in pubs) + b"]"


def push_head(channel: str) -> bytes:
    """Make the part of a push that is the same for every publication of a channel."""
    return b'{"push":{"channel":%b,"pub":{"data":' % encode(channel)


def pushes(head: bytes, pubs: Iterable[Pub]) -> bytes:
    """Write publications as pushes, one a line."""
    return b"\n".join([b'%b%b,"offset":%d}}}' % (head, one_line(data), n) for n, data in pubs])


def notice(head: bytes, data: bytes) -> bytes:
    """Write a push that has no position."""
    return b"%b%b}}}" % (head, one_line(data))


def unsubscribe(channel: str, ending: Ending) -> bytes:
    """Write the push that ends one subscription."""
    return b'{"push":{"channel":%b,"unsubscribe":{"code":%d,"reason":%b}}}' % (
        encode(channel),
        ending.code,
        encode(ending.reason),
    )
