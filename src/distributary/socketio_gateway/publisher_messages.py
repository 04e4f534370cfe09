"""What a publisher sends, as types, and the actions that a publisher session asks for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec

from distributary.publisher.codec.codes import Ending

Fields = dict[str, msgspec.Raw]


class Over(msgspec.Struct):
    """Why a channel or a connection is over."""

    code: int = 0
    reason: str = ""


class Push(msgspec.Struct):
    """What no command asked for."""

    channel: str = ""
    pub: Fields | None = None
    unsubscribe: Over | None = None
    disconnect: Over | None = None


class Error(msgspec.Struct):
    """Why a command was refused."""

    code: int = 0
    message: str = ""
    temporary: bool = False


class Message(msgspec.Struct):
    """One message. Exactly one of the fields beside ``id`` is set; none at all is a ping."""

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


class Answer(NamedTuple):
    """Answer a request of the client."""

    ticket: Hashable
    body: Any


class Emit(NamedTuple):
    """Send the client an event."""

    event: str
    body: Any


class Ready(NamedTuple):
    """The publisher let us in."""


class Later(NamedTuple):
    """Call ``again`` for this channel after a moment, the longer the more ``tries`` there were."""

    channel: str
    tries: int


class Reconnect(NamedTuple):
    """Drop the connection to the publisher and make another after a moment."""

    reason: str


class End(NamedTuple):
    """The client is to be told and disconnected; ``back`` when it may come back."""

    ending: Ending
    back: bool


Action = Send | Answer | Emit | Ready | Later | Reconnect | End
