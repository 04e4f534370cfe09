"""What a client may send, as types. Whatever does not match is a bad frame.

Fields of the protocol that change nothing here are left out, and ignored. Those that ask for something that
is not supported are in ``UNSERVED``: setting one is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

Id = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFFFFFFFFFF)]
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Flag = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Connect(msgspec.Struct, gc=False):
    """Must come first. ``data`` may contain an API key."""

    token: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")
    subs: dict[str, Any] = {}


class Subscribe(msgspec.Struct, gc=False):
    """Subscribes to a channel, from a position if ``recover`` is set; ``token`` is for this channel alone."""

    channel: str = ""
    token: str = ""
    recover: bool = False
    epoch: str = ""
    offset: Offset = 0
    flag: Flag = 0
    data: msgspec.Raw = msgspec.Raw(b"")
    join_leave: bool = False
    tf: Any = None
    type: Int32 = 0
    phase: Int32 = 0
    cursor: str = ""
    limit: Int32 = 0
    asc: bool = False


class Unsubscribe(msgspec.Struct, gc=False):
    """Leaves a channel."""

    channel: str = ""


class Since(msgspec.Struct, gc=False):
    """A position."""

    offset: Offset = 0
    epoch: str = ""


class History(msgspec.Struct, gc=False):
    """Reads publications after a position; limit 0 reads the position alone, below 0 is no limit.

    With ``reverse``: before the position (from the newest without one), the newest first.
    """

    channel: str = ""
    limit: Int32 = 0
    since: Since | None = None
    reverse: bool = False


class Publish(msgspec.Struct, gc=False):
    """Writes a message to a channel."""

    channel: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")
    type: Int32 = 0
    key: str = ""
    removed: bool = False


class Rpc(msgspec.Struct, gc=False):
    """Calls a method of the publisher."""

    method: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")


class Refresh(msgspec.Struct, gc=False):
    """Replaces the token of the connection."""

    token: str = ""


class SubRefresh(msgspec.Struct, gc=False):
    """Replaces the token of one channel."""

    channel: str = ""
    token: str = ""
    type: Int32 = 0
    track: list[Any] = []
    untrack: list[Any] = []


class Command(msgspec.Struct, gc=False):
    """One command. Exactly one of the fields besides ``id`` is set; none is a pong."""

    id: Id = 0
    connect: Connect | None = None
    subscribe: Subscribe | None = None
    unsubscribe: Unsubscribe | None = None
    history: History | None = None
    publish: Publish | None = None
    rpc: Rpc | None = None
    ping: Any = None
    presence: Any = None
    presence_stats: Any = None
    send: Any = None
    refresh: Refresh | None = None
    sub_refresh: SubRefresh | None = None


_MAP = "map subscriptions"
_POLL = "shared poll subscriptions"
_ENTRY = "publishing to an entry of a map"

UNSERVED: Mapping[str, Mapping[str, str]] = {
    "connect": {"subs": "subscriptions in connect; send a subscribe command for each"},
    "subscribe": {
        "join_leave": "join and leave messages",
        "tf": "tags filters; filter in the channel's name, as in odds?where=price%20%3E%201",
        "type": "subscriptions of a type other than stream (map, shared poll)",
        "phase": _MAP,
        "cursor": _MAP,
        "limit": _MAP,
        "asc": _MAP,
    },
    "publish": {"type": _ENTRY, "key": _ENTRY, "removed": _ENTRY},
    "sub_refresh": {"type": _POLL, "track": _POLL, "untrack": _POLL},
}
"""By command: the fields that ask for what is not supported, and what that is."""

_UNSET: Mapping[str, Any] = {
    "connect": Connect(),
    "subscribe": Subscribe(),
    "publish": Publish(),
    "sub_refresh": SubRefresh(),
}


def unserved(command: Command) -> str:
    """Return what a command asks for that is not supported; '' for nothing."""
    for name, fields in UNSERVED.items():
        fields_set = getattr(command, name)
        if fields_set is not None:
            for field, what in fields.items():
                if getattr(fields_set, field) != getattr(_UNSET[name], field):
                    return what
    return ""


class ConnectData(msgspec.Struct, gc=False):
    """The part of a connect's ``data`` that is read; the rest is the application's own."""

    api_key: str = ""


_decoder = msgspec.json.Decoder(Command)
_connect_data = msgspec.json.Decoder(ConnectData)


def decode(line: bytes) -> Command | None:
    """Read one command; None when it is invalid."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def api_key_of(data: msgspec.Raw) -> str:
    """Read the API key out of a connect's data; '' when it has none."""
    try:
        return _connect_data.decode(bytes(data)).api_key
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
