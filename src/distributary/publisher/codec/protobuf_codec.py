"""The client protocol in Protobuf: messages with their length before them, in binary frames.

Only what this publisher sends and understands of the protocol's ``client.proto`` is here; ``data`` fields
hold JSON, as in the other format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from distributary.publisher.codec import client_commands, websocket_frames
from distributary.publisher.codec.client_commands import Command
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.codec.protobuf_encoding import (
    Malformed,
    Schema,
    block,
    delimited,
    messages,
    number,
    read,
    text,
)
from distributary.publisher.codec.publication import Publication

_UINT32 = (0, (1 << 32) - 1)
_INT32 = (-(1 << 31), (1 << 31) - 1)
_COUNT = (0, (1 << 63) - 1)
_FLAGS = (-(1 << 63), (1 << 63) - 1)

_SUBSCRIBE: Schema = {
    1: ("channel", str),
    2: ("token", str),
    3: ("recover", bool),
    6: ("epoch", str),
    7: ("offset", _COUNT),
    8: ("data", bytes),
    11: ("join_leave", bool),
    13: ("tf", bytes),
    14: ("flag", _FLAGS),
    15: ("type", _INT32),
    16: ("phase", _INT32),
    17: ("cursor", str),
    18: ("limit", _INT32),
    19: ("asc", bool),
}
_CONNECT: Schema = {1: ("token", str), 2: ("data", bytes), 3: ("subs", bytes)}
_PUBLISH: Schema = {
    1: ("channel", str),
    2: ("data", bytes),
    3: ("type", _INT32),
    4: ("key", str),
    5: ("removed", bool),
}
_SUB_REFRESH: Schema = {
    1: ("channel", str),
    2: ("token", str),
    3: ("type", _INT32),
    4: ("track", bytes),
    5: ("untrack", bytes),
}
_HISTORY: Schema = {
    1: ("channel", str),
    7: ("limit", _INT32),
    8: ("since", {1: ("offset", _COUNT), 2: ("epoch", str)}),
    9: ("reverse", bool),
}
_NOTHING: Schema = {}
COMMAND: Schema = {
    1: ("id", _UINT32),
    4: ("connect", _CONNECT),
    5: ("subscribe", _SUBSCRIBE),
    6: ("unsubscribe", {1: ("channel", str)}),
    7: ("publish", _PUBLISH),
    8: ("presence", _NOTHING),
    9: ("presence_stats", _NOTHING),
    10: ("history", _HISTORY),
    11: ("ping", _NOTHING),
    12: ("send", _NOTHING),
    13: ("rpc", {1: ("data", bytes), 2: ("method", str)}),
    14: ("refresh", {1: ("token", str)}),
    15: ("sub_refresh", _SUB_REFRESH),
}


class ProtobufCodec:
    """Implements ``Codec``. Bodies are fields of a ``Reply``; payloads have their length before them."""

    subprotocol = "centrifuge-protobuf"
    binary = True
    ping = b"\x00"

    def __init__(self, *, compress: bool = False) -> None:
        self.key = "\0protobuf\0deflate\0" if compress else "\0protobuf\0"
        self._frame = websocket_frames.deflated if compress else websocket_frames.frame

    def decode(self, message: bytes) -> Iterator[Command | None]:
        """Read one command after the other."""
        if not message:
            yield None
        try:
            for one in messages(message):
                yield _command(read(COMMAND, one))
        except Malformed:
            yield None

    def frame(self, payload: bytes) -> bytes:
        """Write a binary frame."""
        return self._frame(websocket_frames.BINARY, payload)

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """Put them behind each other."""
        return b"".join(payloads)

    def reply(self, id: int, body: bytes) -> bytes:
        """Write the reply to command ``id``."""
        return delimited(number(1, id) + body)

    def error(self, refusal: Refusal) -> bytes:
        """Write the body of a reply with an error."""
        body = number(1, refusal.code) + text(2, refusal.message) + number(3, refusal.temporary)
        return block(2, body)

    def connected(self, client: str, version: str, ping: int, ttl: int = 0) -> bytes:
        """Write the body of the reply to ``connect``."""
        body = text(1, client) + text(2, version) + _expires(3, ttl)
        return block(5, body + number(7, ping) + number(8, True))

    def refreshed(self, client: str, version: str, ttl: int) -> bytes:
        """Write the body of the reply to ``refresh``."""
        return block(14, text(1, client) + text(2, version) + _expires(3, ttl))

    def sub_refreshed(self, ttl: int) -> bytes:
        """Write the body of the reply to ``sub_refresh``."""
        return block(15, _expires(1, ttl))

    def subscribed(self, epoch: str, offset: int, data: bytes, *, recovering: bool, ttl: int = 0) -> bytes:
        """Write the body of the reply to ``subscribe`` that carries the initial state."""
        body = _expires(1, ttl) + _positioned(epoch, offset)
        return block(6, body + block(11, data) + number(12, recovering))

    def recovered(
        self, epoch: str, offset: int, publications: Iterable[Publication], data: bytes, *, ttl: int = 0
    ) -> bytes:
        """Write the body of the reply to ``subscribe`` that carries what was missed."""
        missed = b"".join([block(7, _publication(pub)) for pub in publications])
        body = _expires(1, ttl) + _positioned(epoch, offset)
        return block(6, body + missed + number(8, True) + block(11, data) + number(12, True))

    def unsubscribed(self) -> bytes:
        """Write the body of the reply to ``unsubscribe``."""
        return block(7, b"")

    def history(self, epoch: str, offset: int, publications: Iterable[Publication]) -> bytes:
        """Write the body of the reply to ``history``."""
        found = b"".join([block(1, _publication(pub)) for pub in publications])
        return block(11, found + text(2, epoch) + number(3, offset))

    def published(self) -> bytes:
        """Write the body of the reply to ``publish``."""
        return block(8, b"")

    def called(self, data: bytes) -> bytes:
        """Write the body of the reply to ``rpc``."""
        return block(13, block(1, data))

    def push_head(self, channel: str) -> bytes:
        """Write the part of a push that is the same for every publication of a channel."""
        return text(2, channel)

    def pushes(self, head: bytes, publications: Iterable[Publication]) -> bytes:
        """Write publications as pushes."""
        return b"".join([_push(head, _publication(pub)) for pub in publications])

    def notice(self, head: bytes, data: bytes) -> bytes:
        """Write a push that has no position."""
        return _push(head, block(4, data))

    def unsubscribe(self, channel: str, ending: Ending) -> bytes:
        """Write the push that ends one subscription."""
        body = number(2, ending.code) + text(3, ending.reason)
        return delimited(block(4, text(2, channel) + block(7, body)))


def _expires(field: int, ttl: int) -> bytes:
    """Write that something ends, and the seconds until then as the field that follows."""
    return number(field, True) + number(field + 1, ttl) if ttl else b""


def _positioned(epoch: str, offset: int) -> bytes:
    return number(3, True) + text(6, epoch) + number(9, offset) + number(10, True)


def _publication(pub: Publication) -> bytes:
    return block(4, pub[1]) + number(6, pub[0])


def _push(head: bytes, publication: bytes) -> bytes:
    return delimited(block(4, head + block(4, publication)))


_STRUCTS: dict[str, Any] = {
    "connect": client_commands.Connect,
    "subscribe": client_commands.Subscribe,
    "unsubscribe": client_commands.Unsubscribe,
    "publish": client_commands.Publish,
    "history": client_commands.History,
    "rpc": client_commands.Rpc,
    "refresh": client_commands.Refresh,
    "sub_refresh": client_commands.SubRefresh,
}


def _command(found: dict[str, Any]) -> Command:
    """Make the command that the other format would have given."""
    for name, make in _STRUCTS.items():
        if name in found:
            body = found[name]
            if "data" in body:
                body["data"] = msgspec.Raw(body["data"])
            if "since" in body:
                body["since"] = client_commands.Since(**body["since"])
            found[name] = make(**body)
    return Command(**found)


PROTOBUF = ProtobufCodec()
PROTOBUF_DEFLATE = ProtobufCodec(compress=True)
