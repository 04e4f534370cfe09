"""Who listens to a query, and in which encodings.

A channel is one query of one view in this process. Its outlets are the encodings that are in use: one for
every WebSocket channel name and format (the name is in every frame) and one for every kind of HTTP stream.
What is published is encoded once for each outlet and then written to all its live members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from distributary.auth.reservations import Reservation
from distributary.model.field_mask import Fields
from distributary.model.query import Query
from distributary.publisher.codec.codec import Wire
from distributary.publisher.codec.codes import Ending
from distributary.publisher.codec.websocket_frames import Pub
from distributary.publisher.hub.conflated_subscription import Paced
from distributary.publisher.hub.conflation import Pace
from distributary.publisher.hub.join_buffer import Joining
from distributary.publisher.hub.kept import Kept
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import Turn

if TYPE_CHECKING:
    from distributary.publisher.hub.log_follower import Follower

Write = Callable[[bytes], object]

Tier = Literal["log", "replay", "snapshot"]
"""How a subscriber came to its state: by what the log has, by what Kafka has, or anew."""


class Initial(NamedTuple):
    """A join's outcome: the state anew."""

    snapshot: Snapshot
    stale: bool
    recovering: bool


class Recovered(NamedTuple):
    """A join's outcome: exactly what was missed.

    ``whole``: the publications bring rows to ``seq`` only all together, so none of them is a place to resume
    from.
    """

    epoch: str
    seq: int
    pubs: Sequence[Pub]
    tier: Tier = "log"
    whole: bool = False

    @property
    def size(self) -> int:
        """About how many bytes it is to send."""
        return sum(len(data) for _, data in self.pubs)


class Waiting(NamedTuple):
    """A join's outcome: accepted; the state comes once the subscription is begun."""

    epoch: str
    recovering: bool


Outcome = Initial | Recovered | Waiting


class Outlet(Protocol):
    """One encoding of a channel. Outlets with equal ``key`` are interchangeable."""

    key: str
    live: dict[Member, Write]

    def encode(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Encode publications into what is written to a connection."""

    def notice(self, data: bytes) -> bytes:
        """Encode a message that has no position."""


class Sink(Protocol):
    """A subscriber's end, as the hub sees it. No method blocks; none is called again after ``ended``."""

    def outlet(self) -> Outlet:
        """Make the outlet that this sink can be written from."""

    def write(self, data: bytes) -> object:
        """Write what the outlet encoded."""

    def room(self) -> int:
        """Say how many bytes may be written now; none when enough waits for the reader already.

        Only asked for subscribers that may be sent the newest rows instead of every change.
        """

    def joined(self, outcome: Outcome) -> None:
        """Write the outcome of the join; what comes later follows through ``write``."""

    def begun(self, snapshot: Snapshot, stale: bool) -> None:
        """Write the state that ``Waiting`` promised, and that the member is ready from its position on."""

    def carry(self, turn: Turn) -> None:
        """End a turn when the reader has what was written last; at once where that does not wait."""

    def ended(self, ending: Ending) -> None:
        """Tell the subscriber that the hub let go of it."""


class Member:
    """One subscription of one connection, from its hold to its end.

    ``told``: its sink was told an outcome. ``waiting``: that outcome was to wait for a begin. ``begun``: a
    begin was seen before there was an answer. ``ours``: the subscription was made here, not by the control
    API. ``fields``: those that it wants of the rows, None for all. ``pace``: it wants the newest rows rather
    than every change. ``turn``: its turn to be sent a state, while it joins. ``share``: what its query
    counts as of its user's.
    """

    __slots__ = (
        "_lost",
        "begun",
        "channel",
        "fields",
        "follower",
        "joining",
        "ours",
        "outlet",
        "pace",
        "share",
        "sink",
        "subscription",
        "told",
        "turn",
        "waiting",
    )

    def __init__(
        self, follower: Follower, subscription: str, sink: Sink, *, ours: bool, pace: Pace | None = None
    ) -> None:
        self.follower = follower
        self.subscription = subscription
        self.sink = sink
        self.ours = ours
        self.pace = pace
        self.channel: Channel | None = None
        self.outlet: Outlet | None = None
        self.joining: Joining | None = None
        self.told = False
        self.waiting = False
        self.begun = False
        self.fields: Fields | None = None
        self.turn: Turn | None = None
        self.share: Reservation | None = None
        self._lost = False

    def lost(self) -> bool:
        """Say whether the follower let go of it; whoever waited for the store in between must ask."""
        return self._lost

    def lose(self) -> None:
        """Note that the follower let go of it."""
        self._lost = True

    def retry(self) -> None:
        """Begin a join anew."""
        self._lost = False

    def tell(self, outcome: Outcome) -> None:
        """Give the subscriber its answer."""
        self.told = True
        self.sink.joined(outcome)

    def sent(self, size: int) -> None:
        """Hand its turn on: a state of that size was written, and its reader has still to take it."""
        turn, self.turn = self.turn, None
        if self.channel is not None:
            self.channel.size = size
        if turn is not None:
            turn.resize(size)
            self.sink.carry(turn)

    def end_turn(self) -> None:
        """Give up its turn, if it has one."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.end()


class Channel:
    """One query's members in this process.

    Some need its rows (``keepers``: those with a pace, and all where the query has an order). They are
    ``kept`` as long as there are any of them. ``paced`` are the live ones with a pace.
    """

    def __init__(self, number: int, query: Query) -> None:
        self.number = number
        self.query = query
        self.outlets: dict[str, Outlet] = {}
        self.joining: dict[Member, None] = {}
        self.reading: asyncio.Task[Snapshot] | None = None
        self.size: int | None = None
        """How large the state was that was sent last."""
        self.kept: Kept | None = None
        self.keepers: dict[Member, None] = {}
        self.paced: dict[Member, Paced] = {}

    @property
    def empty(self) -> bool:
        """Say whether nobody is here any more."""
        return not self.outlets and not self.joining and not self.paced

    @property
    def subscribers(self) -> int:
        """Count the members, live and joining."""
        return len(self.members())

    def members(self) -> list[Member]:
        """List all members."""
        live = (member for outlet in self.outlets.values() for member in outlet.live)
        return list(dict.fromkeys([*self.joining, *live, *self.paced]))

    def hold(self, member: Member, joining: Joining) -> None:
        """Begin to hold publications for a member."""
        member.channel = self
        member.joining = joining
        self.joining[member] = None

    def keep(self, member: Member, joining: Joining, most: int) -> None:
        """Begin to keep the rows for a member, at most so many, unless they are kept already."""
        member.channel = self
        self.joining[member] = None
        self.keepers[member] = None
        if self.kept is None:
            self.kept = Kept(joining, most, self.query.order)

    def enter(self, member: Member, after: int = 0) -> Paced | None:
        """Let a member in that has the kept rows as they are, or those at ``after``.

        One with a pace must be started.
        """
        if member.pace is None or self.kept is None:
            self.go_live(member)
            return None
        self.joining.pop(member, None)
        found = self.paced[member] = Paced(member, self, self.kept, member.pace, after)
        return found

    def hold_back(self, member: Member) -> None:
        """Let a member wait again that was let in."""
        self.paced.pop(member).stop()
        self.joining[member] = None

    def step_aside(self, member: Member) -> None:
        """Take a member from where every publication is written; an outlet goes with its last."""
        outlet, member.outlet = member.outlet, None
        if outlet is not None:
            outlet.live.pop(member, None)
            if not outlet.live:
                self.outlets.pop(outlet.key, None)

    def go_live(self, member: Member) -> None:
        """Move a settled member to where publications are written without a look at their numbers."""
        self.joining.pop(member, None)
        member.joining = None
        made = member.sink.outlet()
        outlet = member.outlet = self.outlets.setdefault(made.key, made)
        outlet.live[member] = member.sink.write

    def remove(self, member: Member) -> None:
        """Forget a member; an outlet goes with its last, and so do the kept rows."""
        self.joining.pop(member, None)
        member.joining = None
        self.step_aside(member)
        paced = self.paced.pop(member, None)
        if paced is not None:
            paced.stop()
        self.keepers.pop(member, None)
        if not self.keepers:
            self.kept = None


class WebSocketOutlet:
    """Publications as pushes of one channel name in one format, in one WebSocket frame."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.key = wire.key + name
        self.live: dict[Member, Write] = {}
        self._wire = wire
        self._head = wire.push_head(name)

    def encode(self, epoch: str, pubs: Sequence[Pub]) -> bytes:
        """Encode a batch as one raw frame."""
        return self._wire.frame(self._wire.pushes(self._head, pubs))

    def notice(self, data: bytes) -> bytes:
        """Encode a push without a position as one raw frame."""
        return self._wire.frame(self._wire.notice(self._head, data))
