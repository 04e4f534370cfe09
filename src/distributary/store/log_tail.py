"""What a follower of a view's log is told, in order."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model.build import Build
from distributary.model.change import Entry


class Attached(NamedTuple):
    """All that follows comes after this position; whatever was held before is void.

    Comes first, and again whenever the live build, its epoch or the server's
    history changed, or a hole was found. ``history_id`` names one server's
    uninterrupted time as primary: after a restart or a failover it is another,
    and writes of before may be lost, or their numbers given again.
    """

    build: Build
    epoch: str
    seq: int
    history_id: str = ""


class Entries(NamedTuple):
    """Groups of changes, without a hole after what came before."""

    entries: list[Entry]


class Begun(NamedTuple):
    """A subscription's initial state may come now."""

    subscription: str


class Ended(NamedTuple):
    """Somebody ended a subscription that others may still listen by."""

    subscription: str


class Lapsed(NamedTuple):
    """Subscriptions that nobody renewed in time were ended; whoever serves one all the same must renew it."""

    subscriptions: tuple[str, ...]


class Gone(NamedTuple):
    """The view does not exist (any more)."""

    view: str


TailEvent = Attached | Entries | Begun | Ended | Lapsed | Gone
