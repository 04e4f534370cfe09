"""What an ``Upstream`` wants to be done, in this order."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from distributary.publisher.codec.codes import Ending


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
