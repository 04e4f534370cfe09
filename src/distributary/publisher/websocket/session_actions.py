"""What a session wants done: plain values, carried out by whoever has the socket."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.model.position import Position, Start
from distributary.publisher.codec.codes import Ending
from distributary.publisher.hub.conflation import Pace


@dataclass(slots=True, eq=False)
class Ticket:
    """A command whose answer is still to come."""

    id: int
    channel: str
    open: bool = True


@dataclass(slots=True, frozen=True)
class Send:
    """Send this payload."""

    payload: bytes


@dataclass(slots=True, frozen=True)
class Admit:
    """Find out who this is by what it showed, each '' when it did not."""

    ticket: Ticket
    token: str
    api_key: str


@dataclass(slots=True, frozen=True)
class Refresh:
    """Go on by another token: of the ticket's channel, or without one of the whole connection."""

    ticket: Ticket
    token: str


@dataclass(slots=True, frozen=True)
class Join:
    """Subscribe to a channel, resuming after ``position`` if it is there.

    ``reject``: answer with error 112 rather than with the state anew. ``subscription`` is the id that the
    control API gave, '' when the channel's name says everything. ``since`` is from where on something is
    wanted by somebody who has the rows already. ``pace`` is what its options ask for. ``token`` is the
    channel's own, if any.
    """

    ticket: Ticket
    position: Position | None
    reject: bool
    subscription: str
    since: Start | None = None
    pace: Pace | None = None
    token: str = ""


@dataclass(slots=True, frozen=True)
class Leave:
    """Give up a channel, joined or still joining."""

    channel: str


@dataclass(slots=True, frozen=True)
class History:
    """Read publications of a joined channel after a position (None: from the oldest).

    With ``reverse``: before it (None: from the newest), the newest first.
    """

    ticket: Ticket
    since: Position | None
    limit: int
    reverse: bool


@dataclass(slots=True, frozen=True)
class Publish:
    """Write a message into what the ticket's channel names."""

    ticket: Ticket
    data: bytes


@dataclass(slots=True, frozen=True)
class Call:
    """Call a method."""

    ticket: Ticket
    method: str
    data: bytes


@dataclass(slots=True, frozen=True)
class Close:
    """Close the connection; nothing follows."""

    ending: Ending


Action = Send | Admit | Refresh | Join | Leave | History | Publish | Call | Close
