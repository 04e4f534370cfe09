"""What a session wants done: plain values, carried out by the connection that has the socket."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.model.position import Position
from distributary.publisher.codec.codes import Ending
from distributary.publisher.codec.subscribe_options import SubscribeCommand


@dataclass(slots=True, eq=False)
class PendingReply:
    """A command whose reply is still to come."""

    id: int
    channel: str
    open: bool = True


@dataclass(slots=True, frozen=True)
class Send:
    """Send this payload."""

    payload: bytes


@dataclass(slots=True, frozen=True)
class Authenticate:
    """Find out who the client is by its token or API key, each '' when it sent none."""

    reply: PendingReply
    token: str
    api_key: str


@dataclass(slots=True, frozen=True)
class RefreshToken:
    """Replace the token: of the reply's channel, or without one of the whole connection."""

    reply: PendingReply
    token: str


@dataclass(slots=True, frozen=True)
class JoinChannel:
    """Subscribe to a channel."""

    reply: PendingReply
    command: SubscribeCommand


@dataclass(slots=True, frozen=True)
class LeaveChannel:
    """End the subscription to a channel, joined or still joining."""

    channel: str


@dataclass(slots=True, frozen=True)
class ReadHistory:
    """Read publications of a joined channel after a position (None: from the oldest).

    With ``reverse``: before it (None: from the newest), the newest first.
    """

    reply: PendingReply
    since: Position | None
    limit: int
    reverse: bool


@dataclass(slots=True, frozen=True)
class PublishMessage:
    """Write a message to the feed that the reply's channel names."""

    reply: PendingReply
    data: bytes


@dataclass(slots=True, frozen=True)
class CallMethod:
    """Call a method."""

    reply: PendingReply
    method: str
    data: bytes


@dataclass(slots=True, frozen=True)
class CloseConnection:
    """Close the connection; nothing follows."""

    ending: Ending


Action = (
    Send
    | Authenticate
    | RefreshToken
    | JoinChannel
    | LeaveChannel
    | ReadHistory
    | PublishMessage
    | CallMethod
    | CloseConnection
)
