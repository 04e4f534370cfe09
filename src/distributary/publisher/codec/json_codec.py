"""The client protocol in JSON: one message a line, in text frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from distributary.publisher.codec import client_commands, websocket_frames
from distributary.publisher.codec.client_commands import Command
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.codec.publication import Publication, encode_json, one_line


class JsonCodec:
    """Implements ``Codec``. Bodies are members of a JSON object."""

    subprotocol = "centrifuge-json"
    binary = False
    ping = b"{}"

    def __init__(self, *, compress: bool = False) -> None:
        self.key = "\0deflate\0" if compress else ""
        self._frame = websocket_frames.deflated if compress else websocket_frames.frame

    def decode(self, message: bytes) -> Iterator[Command | None]:
        """Read one command a line."""
        lines = [line for line in message.split(b"\n") if line.strip()]
        for line in lines:
            yield client_commands.decode(line)
        if not lines:
            yield None

    def frame(self, payload: bytes) -> bytes:
        """Write a text frame."""
        return self._frame(websocket_frames.TEXT, payload)

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """Put each on a line of its own."""
        return b"\n".join(payloads)

    def reply(self, id: int, body: bytes) -> bytes:
        """Write the reply to command ``id``."""
        return b'{"id":%d,%b}' % (id, body)

    def error(self, refusal: Refusal) -> bytes:
        """Write the body of a reply with an error."""
        temporary = b',"temporary":true' if refusal.temporary else b""
        return b'"error":{"code":%d,"message":%b%b}' % (refusal.code, encode_json(refusal.message), temporary)

    def connected(self, client: str, version: str, ping: int, ttl: int = 0) -> bytes:
        """Write the body of the reply to ``connect``."""
        return b'"connect":{"client":%b,"version":%b,%b"ping":%d,"pong":true}' % (
            encode_json(client),
            encode_json(version),
            _expires(ttl),
            ping,
        )

    def refreshed(self, client: str, version: str, ttl: int) -> bytes:
        """Write the body of the reply to ``refresh``."""
        return b'"refresh":{%b"client":%b,"version":%b}' % (
            _expires(ttl),
            encode_json(client),
            encode_json(version),
        )

    def sub_refreshed(self, ttl: int) -> bytes:
        """Write the body of the reply to ``sub_refresh``."""
        return b'"sub_refresh":{%b}' % _expires(ttl).rstrip(b",")

    def subscribed(self, epoch: str, offset: int, data: bytes, *, recovering: bool, ttl: int = 0) -> bytes:
        """Write the body of the reply to ``subscribe`` that carries the initial state."""
        was = b'"was_recovering":true,"recovered":false,' if recovering else b""
        return b'"subscribe":{%b"recoverable":true,"positioned":true,"epoch":%b,"offset":%d,%b"data":%b}' % (
            _expires(ttl),
            encode_json(epoch),
            offset,
            was,
            one_line(data),
        )

    def recovered(
        self, epoch: str, offset: int, publications: Iterable[Publication], data: bytes, *, ttl: int = 0
    ) -> bytes:
        """Write the body of the reply to ``subscribe`` that carries what was missed."""
        return (
            b'"subscribe":{%b"recoverable":true,"positioned":true,"epoch":%b,"offset":%d,'
            b'"was_recovering":true,"recovered":true,"publications":%b,"data":%b}'
            % (_expires(ttl), encode_json(epoch), offset, _publications(publications), one_line(data))
        )

    def unsubscribed(self) -> bytes:
        """Write the body of the reply to ``unsubscribe``."""
        return b'"unsubscribe":{}'

    def history(self, epoch: str, offset: int, publications: Iterable[Publication]) -> bytes:
        """Write the body of the reply to ``history``."""
        return b'"history":{"publications":%b,"epoch":%b,"offset":%d}' % (
            _publications(publications),
            encode_json(epoch),
            offset,
        )

    def published(self) -> bytes:
        """Write the body of the reply to ``publish``."""
        return b'"publish":{}'

    def called(self, data: bytes) -> bytes:
        """Write the body of the reply to ``rpc``."""
        return b'"rpc":{"data":%b}' % one_line(data)

    def push_head(self, channel: str) -> bytes:
        """Write the part of a push that is the same for every publication of a channel."""
        return b'{"push":{"channel":%b,"pub":{"data":' % encode_json(channel)

    def pushes(self, head: bytes, publications: Iterable[Publication]) -> bytes:
        """Write publications as pushes, one a line."""
        return b"\n".join([b'%b%b,"offset":%d}}}' % (head, one_line(data), n) for n, data in publications])

    def notice(self, head: bytes, data: bytes) -> bytes:
        """Write a push that has no position."""
        return b"%b%b}}}" % (head, one_line(data))

    def unsubscribe(self, channel: str, ending: Ending) -> bytes:
        """Write the push that ends one subscription."""
        return b'{"push":{"channel":%b,"unsubscribe":{"code":%d,"reason":%b}}}' % (
            encode_json(channel),
            ending.code,
            encode_json(ending.reason),
        )


def _expires(ttl: int) -> bytes:
    return b'"expires":true,"ttl":%d,' % ttl if ttl else b""


def _publications(publications: Iterable[Publication]) -> bytes:
    return (
        b"[" + b",".join(b'{"data":%b,"offset":%d}' % (one_line(data), n) for n, data in publications) + b"]"
    )


JSON = JsonCodec()
JSON_DEFLATE = JsonCodec(compress=True)
