"""Subscriptions: what the hub is asked for, what it replies, and the live ones by their id.

A subscribe is a ``SubscribeCommand`` as its client sent it, a ``SubscribeRequest`` with what its grants let
it have, and from then on a ``Subscription``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

from distributary.auth import EVERYTHING, GrantSet
from distributary.auth.reservations import Reservation
from distributary.model.field_mask import FieldMask
from distributary.model.position import Position, Start
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery
from distributary.publisher.codec.codes import Ending
from distributary.publisher.codec.publication import Publication
from distributary.publisher.codec.subscribe_options import Conflation, SubscribeCommand
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn

if TYPE_CHECKING:
    from distributary.publisher.hub.channel import Channel
    from distributary.publisher.hub.log_follower import Follower

CountQuery = Callable[[Query], Awaitable[Reservation | None]]
"""Counts a query as its user's, before it is registered, maybe more than once.

Returns what it counts as, None for nothing. Raises Refused when the user has too many."""


# --- the request ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """What a subscriber asks the hub for.

    ``query`` is what it is served, already narrowed to what its ``grants`` let it have where the query itself
    is known. ``subscription`` is the id of one that exists already, '' to create one. ``position``,
    ``since``, ``require_recovery`` and ``conflation`` are as in the command, with the store's own epochs.
    """

    query: ChannelQuery
    subscription: str = ""
    position: Position | None = None
    since: Start | None = None
    require_recovery: bool = False
    conflation: Conflation | None = None
    grants: GrantSet = EVERYTHING
    count: CountQuery | None = None

    @classmethod
    def of(
        cls, command: SubscribeCommand, query: ChannelQuery, grants: GrantSet, count: CountQuery | None
    ) -> Self:
        """Turn a command into a request for what its grants allow of its query."""
        position, since = command.position, command.since
        return cls(
            query=query,
            subscription=command.subscription,
            position=None if position is None else grants.store_position(query.view, position),
            since=grants.store_position(query.view, since) if isinstance(since, Position) else since,
            require_recovery=command.require_recovery,
            conflation=command.conflation,
            grants=grants,
            count=count,
        )

    @property
    def start(self) -> Start | None:
        """Where the subscriber starts from; None when it needs a snapshot."""
        return self.position if self.position is not None else self.since


# --- the outcome ------------------------------------------------------------------------------------------

Tier = Literal["log", "replay", "snapshot"]
"""Where a subscriber's state came from: changes in the log, records in Kafka, or all rows."""


class Initial(NamedTuple):
    """A join's outcome: all rows."""

    snapshot: Snapshot
    stale: bool
    recovering: bool


class Recovered(NamedTuple):
    """A join's outcome: exactly what was missed.

    ``all_or_nothing``: only all publications together bring the rows to ``seq``, so none of them is a
    position to resume from.
    """

    epoch: str
    seq: int
    publications: Sequence[Publication]
    tier: Tier = "log"
    all_or_nothing: bool = False

    @property
    def size(self) -> int:
        """Roughly how many bytes it is to send."""
        return sum(len(data) for _, data in self.publications)


class Waiting(NamedTuple):
    """A join's outcome: accepted; the snapshot is sent once the subscription is begun."""

    epoch: str
    recovering: bool


Outcome = Initial | Recovered | Waiting


# --- the subscriber's end ---------------------------------------------------------------------------------

Write = Callable[[bytes], object]


class ChannelEncoder(Protocol):
    """One encoding of a channel, and who is written it. Encoders with equal ``key`` are interchangeable."""

    key: str
    live: dict[Subscription, Write]

    def encode(self, epoch: str, publications: Sequence[Publication]) -> bytes:
        """Encode publications into what is written to a connection; empty when there is nothing to write."""

    def encode_notice(self, data: bytes) -> bytes:
        """Encode a message that has no position."""


class Sink(Protocol):
    """A subscriber's end, as the hub sees it. No method blocks; none is called again after ``end``."""

    def encoder(self) -> ChannelEncoder:
        """Create an encoder that this sink can be written from."""

    def write(self, data: bytes) -> object:
        """Write what the encoder returned."""

    def room(self) -> int:
        """Return how many bytes may be written now; zero or less when enough waits for the reader already.

        Called only for subscribers that may be sent the newest rows instead of every change.
        """

    def send_outcome(self, outcome: Outcome) -> None:
        """Write the outcome of the join; what comes later follows through ``write``."""

    def send_snapshot(self, snapshot: Snapshot, stale: bool) -> None:
        """Write the snapshot that ``Waiting`` promised, and that the subscription is ready from there on."""

    def release_when_read(self, turn: Turn) -> None:
        """End a turn when the reader has what was written last; at once where that does not wait."""

    def end(self, ending: Ending) -> None:
        """Tell the subscriber that the hub ended its subscription."""


# --- live subscriptions -----------------------------------------------------------------------------------


class Subscription:
    """One subscription of one connection, from its join to its end."""

    __slots__ = (
        "answered",
        "begun",
        "buffer",
        "channel",
        "conflation",
        "created_here",
        "detached",
        "encoder",
        "fields",
        "follower",
        "id",
        "reservation",
        "sink",
        "turn",
        "waiting",
    )

    def __init__(
        self,
        follower: Follower,
        id: str,
        sink: Sink,
        *,
        created_here: bool,
        conflation: Conflation | None = None,
        fields: FieldMask | None = None,
    ) -> None:
        self.follower = follower
        self.id = id
        self.sink = sink
        # Created by this join, not by the control API: then it ends with its subscriber.
        self.created_here = created_here
        # How fast it is sent the newest rows; None: it is sent every change.
        self.conflation = conflation
        # The requested fields of the rows; None for all.
        self.fields = fields
        # Its query's channel; None until its query is known, and again once it is detached.
        self.channel: Channel | None = None
        # Set while it joins a channel whose rows are not materialized.
        self.buffer: JoinBuffer | None = None
        # Set while every publication of the channel is written to it.
        self.encoder: ChannelEncoder | None = None
        # Its sink was sent an outcome. Until then a join that fails is tried again; afterwards the sink is
        # told the end.
        self.answered = False
        # The outcome was ``Waiting``, and no begin came since.
        self.waiting = False
        # A begin was seen. It may come before the join has an outcome.
        self.begun = False
        # The follower dropped it. Check it again after every await.
        self.detached = False
        # Its turn in the state budget, from before its state is read until its reader has it.
        self.turn: Turn | None = None
        # What its query counts as, of its user's; None: not counted.
        self.reservation: Reservation | None = None

    def answer(self, outcome: Outcome) -> None:
        """Send the subscriber the outcome of its join."""
        self.answered = True
        self.sink.send_outcome(outcome)

    def hand_over_turn(self, size: int) -> None:
        """Let its turn end when its reader has the state that was written, of this size."""
        turn, self.turn = self.turn, None
        if self.channel is not None:
            self.channel.last_size = size
        if turn is not None:
            turn.resize(size)
            self.sink.release_when_read(turn)

    def end_turn(self) -> None:
        """End its turn, if it has one."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.end()


class SubscriptionMap:
    """The subscriptions of a view by their id. Almost every id has one; several connections may share it.

    What more than one costs is paid only where there is more than one.
    """

    def __init__(self) -> None:
        self._first: dict[str, Subscription] = {}
        self._more: dict[str, list[Subscription]] = {}

    def add(self, subscription: Subscription) -> None:
        """Add a subscription, unless it is there."""
        first = self._first.setdefault(subscription.id, subscription)
        if first is not subscription:
            more = self._more.setdefault(subscription.id, [])
            if not any(one is subscription for one in more):
                more.append(subscription)

    def discard(self, subscription: Subscription) -> None:
        """Remove a subscription, if it is there."""
        id = subscription.id
        more = self._more.get(id, [])
        if self._first.get(id) is subscription:
            if more:
                self._first[id] = more.pop(0)
            else:
                del self._first[id]
        else:
            more[:] = [one for one in more if one is not subscription]
        if not more:
            self._more.pop(id, None)

    def by_id(self, id: str) -> tuple[Subscription, ...]:
        """Return all that have an id."""
        first = self._first.get(id)
        return () if first is None else (first, *self._more.get(id, ()))

    def ids(self) -> list[str]:
        """Return the ids, each once."""
        return list(self._first)

    def __iter__(self) -> Iterator[Subscription]:
        """Iterate over a copy: subscriptions may be removed meanwhile."""
        return iter([*self._first.values(), *(one for more in self._more.values() for one in more)])

    def __contains__(self, subscription: Subscription) -> bool:
        return any(one is subscription for one in self.by_id(subscription.id))

    def __len__(self) -> int:
        return len(self._first) + sum(map(len, self._more.values()))
