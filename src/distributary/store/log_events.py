"""The events that a follower of a view's log receives, in order."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model.build import Build
from distributary.model.change import Entry


class Attached(NamedTuple):
    """All further events come after this position; whatever was buffered before is void.

    The first event, repeated whenever the live build, its epoch or the server's history changed, or a gap was
    found. ``history_id`` identifies the uninterrupted time of one server as primary: after a restart or a
    failover it is another one, and earlier writes may be lost, or their numbers reused.
    """

    build: Build
    epoch: str
    seq: int
    history_id: str = ""


class Entries(NamedTuple):
    """Groups of changes that follow the previous ones without a gap."""

    entries: list[Entry]


class Begun(NamedTuple):
    """A subscription has begun: its snapshot may be sent."""

    subscription: str


class Ended(NamedTuple):
    """A subscription was ended through the API; a client may still be following it."""

    subscription: str


class Lapsed(NamedTuple):
    """Subscriptions that were not renewed in time were ended; a publisher that still serves one renews it."""

    subscriptions: tuple[str, ...]


class Gone(NamedTuple):
    """The view does not exist (any more)."""

    view: str


TailEvent = Attached | Entries | Begun | Ended | Lapsed | Gone
