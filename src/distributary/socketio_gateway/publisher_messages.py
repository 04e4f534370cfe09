"""What a publisher sends, as types, and the actions that a publisher session wants done, in their order.

Results are kept as they came (``msgspec.Raw``), so numbers keep their digits.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec

from distributary.publisher.codec.codes import Ending

Fields = dict[str, msgspec.Raw]


class CloseReason(msgspec.Struct):
    """Why a channel or a connection has ended."""

    code: int = 0
    reason: str = ""


class Push(msgspec.Struct):
    """A message that is not a reply."""

    channel: str = ""
    pub: Fields | None = None
    unsubscribe: CloseReason | None = None
    disconnect: CloseReason | None = None


class Error(msgspec.Struct):
    """Why a command was refused."""

    code: int = 0
    message: str = ""
    temporary: bool = False


class Message(msgspec.Struct):
    """One message. Exactly one of the fields besides ``id`` is set; none is a ping."""

    id: int = 0
    error: Error | None = None
    connect: Fields | None = None
    push: Push | None = None
    subscribe: Fields | None = None
    unsubscribe: Fields | None = None
    publish: Fields | None = None
    history: Fields | None = None
    rpc: Fields | None = None
    refresh: Fields | None = None
    sub_refresh: Fields | None = None


decoder = msgspec.json.Decoder(Message)
number = msgspec.json.Decoder(int)
text = msgspec.json.Decoder(str)


class Send(NamedTuple):
    """Send a text frame to the publisher."""

    text: str


class Acknowledge(NamedTuple):
    """Acknowledge a request of the client with a result."""

    ticket: Hashable
    body: Any


class Emit(NamedTuple):
    """Send the client an event."""

    event: str
    body: Any


class Connected(NamedTuple):
    """The publisher has accepted the connection."""


class RetryLater(NamedTuple):
    """Call ``retry`` for this channel after a delay, which grows with ``tries``."""

    channel: str
    tries: int


class Reconnect(NamedTuple):
    """Drop the connection to the publisher and connect again after a delay."""

    reason: str


class Disconnect(NamedTuple):
    """Tell the client why, and disconnect it."""

    ending: Ending
    may_reconnect: bool


Action = Send | Acknowledge | Emit | Connected | RetryLater | Reconnect | Disconnect
