"""The two formats of the client protocol behind one contract.

A format writes *bodies* (what a reply says), *payloads* (one whole message each) and *frames* (what is
written to a socket). Rows and values are spliced in as they are in both; nothing is decoded and encoded
again, so numbers keep their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from distributary.publisher.codec.client_commands import Command
from distributary.publisher.codec.codes import Ending, Refusal
from distributary.publisher.codec.websocket_frames import Pub


class Wire(Protocol):
    """One format. Equal ``key`` means equal bytes: frames may be shared among such connections."""

    key: str
    subprotocol: str
    binary: bool
    ping: bytes

    def decode(self, message: bytes) -> Iterator[Command | None]:
        """Read the commands of one message, each when it is asked for; None, the last, when it is none."""

    def frame(self, payload: bytes) -> bytes:
        """Wrap payloads into one raw WebSocket frame."""

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """Put several payloads into one."""

    def reply(self, id: int, body: bytes) -> bytes:
        """Answer command ``id``: a payload."""

    def error(self, refusal: Refusal) -> bytes:
        """Make the body of a reply that refuses."""

    def connected(self, client: str, version: str, ping: int, ttl: int = 0) -> bytes:
        """Make the body of the reply to ``connect``; ``ttl`` here and below: seconds, 0 for no end."""

    def refreshed(self, client: str, version: str, ttl: int) -> bytes:
        """Make the body of the reply to ``refresh``."""

    def sub_refreshed(self, ttl: int) -> bytes:
        """Make the body of the reply to ``sub_refresh``."""

    def subscribed(self, epoch: str, offset: int, data: bytes, *, recovering: bool, ttl: int = 0) -> bytes:
        """Make the body of the reply to ``subscribe`` that carries the initial state."""

    def recovered(self, epoch: str, offset: int, pubs: Iterable[Pub], data: bytes, *, ttl: int = 0) -> bytes:
        """Make the body of the reply to ``subscribe`` that carries what was missed, and how it came."""

    def unsubscribed(self) -> bytes:
        """Make the body of the reply to ``unsubscribe``."""

    def history(self, epoch: str, offset: int, pubs: Iterable[Pub]) -> bytes:
        """Make the body of the reply to ``history``."""

    def published(self) -> bytes:
        """Make the body of the reply to ``publish``."""

    def called(self, data: bytes) -> bytes:
        """Make the body of the reply to ``rpc``; ``data`` is JSON."""

    def push_head(self, channel: str) -> bytes:
        """Make the part of a push that is the same for every publication of a channel."""

    def pushes(self, head: bytes, pubs: Iterable[Pub]) -> bytes:
        """Write publications as pushes: payloads, joined."""

    def notice(self, head: bytes, data: bytes) -> bytes:
        """Write a push that has no position: a payload."""

    def unsubscribe(self, channel: str, ending: Ending) -> bytes:
        """Write the push that ends one subscription: a payload."""
