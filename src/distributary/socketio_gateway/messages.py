"""What a publisher says, as types. Results are kept as they came (``msgspec.Raw``), so digits stay."""

from __future__ import annotations

import msgspec

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
