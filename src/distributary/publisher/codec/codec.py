"""The two formats of the client protocol behind one contract.

A format writes *bodies* (the contents of a reply), *payloads* (one complete message each) and *frames* (what
is written to a socket). Both insert rows and values as they are: nothing is decoded and encoded again, so
numbers keep their digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from distributary.publisher.codec.client_commands import Command
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.codec.publication import Publication


class Codec(Protocol):
    """One format. Equal ``key`` means equal bytes: frames may be shared among such connections."""

    key: str
    subprotocol: str
    binary: bool
    ping: bytes

    def decode(self, message: bytes) -> Iterator[Command | None]:
        """Yield the commands of one message; None, as the last one, for what is not a command."""

    def frame(self, payload: bytes) -> bytes:
        """Wrap payloads into one raw WebSocket frame."""

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """Join several payloads into one."""

    def reply(self, id: int, body: bytes) -> bytes:
        """Write the reply to command ``id``: a payload."""

    def error(self, refusal: Refusal) -> bytes:
        """Write the body of a reply with an error."""

    def connected(self, client: str, version: str, ping: int, ttl: int = 0) -> bytes:
        """Write the body of the reply to ``connect``; ``ttl`` here and below: seconds, 0 for no end."""

    def refreshed(self, client: str, version: str, ttl: int) -> bytes:
        """Write the body of the reply to ``refresh``."""

    def sub_refreshed(self, ttl: int) -> bytes:
        """Write the body of the reply to ``sub_refresh``."""

    def subscribed(self, epoch: str, offset: int, data: bytes, *, recovering: bool, ttl: int = 0) -> bytes:
        """Write the body of the reply to ``subscribe`` that carries the initial state."""

    def recovered(
        self, epoch: str, offset: int, publications: Iterable[Publication], data: bytes, *, ttl: int = 0
    ) -> bytes:
        """Write the body of the reply to ``subscribe`` that carries what was missed, and how it came."""

    def unsubscribed(self) -> bytes:
        """Write the body of the reply to ``unsubscribe``."""

    def history(self, epoch: str, offset: int, publications: Iterable[Publication]) -> bytes:
        """Write the body of the reply to ``history``."""

    def published(self) -> bytes:
        """Write the body of the reply to ``publish``."""

    def called(self, data: bytes) -> bytes:
        """Write the body of the reply to ``rpc``; ``data`` is JSON."""

    def push_head(self, channel: str) -> bytes:
        """Write the part of a push that is the same for every publication of a channel."""

    def pushes(self, head: bytes, publications: Iterable[Publication]) -> bytes:
        """Write publications as pushes: payloads, joined."""

    def notice(self, head: bytes, data: bytes) -> bytes:
        """Write a push that has no position: a payload."""

    def unsubscribe(self, channel: str, ending: Ending) -> bytes:
        """Write the push that ends one subscription: a payload."""
