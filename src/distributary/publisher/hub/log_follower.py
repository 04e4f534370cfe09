"""Follow one view's log and hand its changes to the channels they concern.

All of it runs in one thread of one event loop and without an await between taking a batch and having written
it, so a member that is added or removed by other code is in one batch whole or not at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from distributary.model.build import Build
from distributary.model.change import Entry, add_data, change_data, remove_data
from distributary.model.query import Query
from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Ending
from distributary.publisher.codec.websocket_frames import Pub
from distributary.publisher.hub.join_buffer import Overflow
from distributary.publisher.hub.kept import Broken, TooMany
from distributary.publisher.hub.subscription import Channel, Member
from distributary.publisher.hub.subscription_map import Members
from distributary.publisher.metrics import Stats
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.log_events import Attached, Begun, Ended, Entries, Lapsed, TailEvent
from distributary.store.store_types import ViewInfo

log = logging.getLogger(__name__)


class Follower:
    """One view as this process sees it: where its log is read, and who listens."""

    def __init__(
        self, store: ReaderStore, view: str, stats: Stats, on_begun: Callable[[Follower, str], None]
    ) -> None:
        self.view = view
        self.build = Build(view, "")
        self.epoch = ""
        self.seq = 0
        self.history_id = ""
        self.attachments = 0
        self.gone = False
        self.stale = False
        self.stale_after: float | None = None
        self.fresh = 0
        self.idle_since: float | None = None
        self.channels: dict[int, Channel] = {}
        self._numbers: dict[str, int] = {}
        self.members: Members[Member] = Members()
        self.joins = 0
        self._store = store
        self.stats = stats
        self._latency = stats.latency(view)
        self._on_begun = on_begun
        self._moved: asyncio.Event = asyncio.Event()

    # --- the log ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the view until it is gone; a failing store is tried again with back-off."""
        delay = 0.0
        while True:
            try:
                async for event in self._store.tail(self.view):
                    delay = 0.0
                    self._take(event)
                    if self.gone:
                        return
            except Exception as error:  # whatever a store may raise, following goes on
                log.warning(
                    "view %s: its log cannot be followed (%s)", self.view, error or type(error).__name__
                )
            delay = min(2.0, delay * 2 or 0.1)
            await asyncio.sleep(delay)

    async def moved(self, attachments: int, timeout: float) -> None:
        """Wait until the follower was attached more often than that. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while self.attachments <= attachments and not self.gone:
                await self._moved.wait()

    def _take(self, event: TailEvent) -> None:
        if isinstance(event, Entries):
            self.publish(event.entries)
        elif isinstance(event, Attached):
            self.attach(event)
        elif isinstance(event, Begun):
            self._on_begun(self, event.subscription)
        elif isinstance(event, Ended):
            for member in self.members.of(event.subscription):
                self.release(member, codes.ENDED)
        elif isinstance(event, Lapsed):
            # Its query is not matched any more: it is served again once it is registered again.
            for subscription in event.subscriptions:
                for member in self.members.of(subscription):
                    self.release(member, codes.INSUFFICIENT)
        else:
            self.gone = True
            self.release_all(codes.VIEW_DELETED)
            self._wake()

    def attach(self, event: Attached) -> None:
        """Begin at another position: what members got before may not join up with what comes now."""
        self.build, self.epoch, self.seq, self.history_id = event
        self.attachments += 1
        self.release_all(codes.INSUFFICIENT)
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    # --- the fan-out ------------------------------------------------------------------------------------

    def publish(self, entries: Sequence[Entry]) -> None:
        """Hand a batch of the log to its channels: one encoding for each outlet, one write a member."""
        if entries and entries[0].first != self.seq + 1:
            log.error("view %s: its log jumps from %d to %d", self.view, self.seq, entries[0].first)
            self.seq = entries[-1].last
            self.release_all(codes.INSUFFICIENT)
            return
        channels = self.channels
        batches: dict[int, list[Pub]] = {}
        times: list[int] = []
        for entry in entries:
            for seq, change in entry.numbered():
                heard = False
                for numbers, make in (
                    (change.changes, change_data),
                    (change.adds, add_data),
                    (change.removes, remove_data),
                ):
                    pub: Pub | None = None
                    for number in numbers:
                        if number in channels:
                            if pub is None:
                                pub = (seq, make(change))
                            batches.setdefault(number, []).append(pub)
                            heard = True
                if heard:
                    times.append(change.time)
        if entries:
            self.seq = entries[-1].last
        for number, pubs in batches.items():
            self._deliver(channels[number], pubs)
        if times:
            self._latency.observe_all(times)

    def _deliver(self, channel: Channel, pubs: Sequence[Pub]) -> None:
        stats = self.stats
        if channel.kept is not None:
            pubs = self._keep(channel, pubs)
            if not pubs:
                return
        for outlet in channel.outlets.values():
            data = outlet.encode(self.epoch, pubs)
            if not data:
                continue  # nothing of it is for them
            live = outlet.live
            for write in live.values():
                write(data)
            count = len(live)
            stats.deliveries += count * len(pubs)
            stats.writes += count
            stats.bytes += count * len(data)
        for member in list(channel.joining):
            self._deliver_joining(member, pubs)

    def _keep(self, channel: Channel, pubs: Sequence[Pub]) -> Sequence[Pub]:
        """Bring the kept rows up to date, and those who follow them; returns what all others are told."""
        kept, ordered = channel.kept, channel.query.order is not None
        assert kept is not None
        for paced in channel.paced.values():
            paced.ease()
        try:
            steps = kept.take(pubs)
        except (Overflow, TooMany, Broken):
            for member in list(channel.keepers):
                self.release(member, codes.INSUFFICIENT)
            return () if ordered else pubs
        for paced in channel.paced.values():
            paced.take(steps)
        return [(step.seq, step.data) for step in steps] if ordered else pubs

    def _deliver_joining(self, member: Member, pubs: Sequence[Pub]) -> None:
        joining = member.joining
        if joining is None:
            return
        try:
            self.send(member, joining.take(pubs))
        except Overflow:
            self.release(member, codes.INSUFFICIENT)
            return
        self.settled(member)

    def settled(self, member: Member) -> None:
        """Move a member to the live ones if the log has passed its state."""
        channel, joining = member.channel, member.joining
        if channel is not None and joining is not None and joining.live(self.seq):
            channel.go_live(member)

    def send(self, member: Member, pubs: Sequence[Pub]) -> None:
        """Write publications to one member alone."""
        if pubs:
            data = member.sink.outlet().encode(self.epoch, pubs)
            if not data:
                return
            member.sink.write(data)
            self.stats.deliveries += len(pubs)
            self.stats.writes += 1
            self.stats.bytes += len(data)

    def notify(self, data: bytes) -> None:
        """Write a message without a position to every live member."""
        for channel in self.channels.values():
            for outlet in channel.outlets.values():
                frame = outlet.notice(data)
                for write in outlet.live.values():
                    write(frame)
            for member, paced in channel.paced.items():
                if member.told and not paced.direct:
                    member.sink.write(member.sink.outlet().notice(data))

    # --- who listens ------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Say whether nobody is here and nobody is on the way."""
        return not self.members and not self.channels and not self.joins

    def find(self, query: Query) -> Channel | None:
        """Find the channel of a query, if it has one here."""
        return self.channels.get(self._numbers.get(query.text, 0))

    def channel(self, number: int, query: Query) -> Channel:
        """Find or make the channel of a query.

        A channel of the same query under another number is one that the store has forgotten: it gets no
        changes any more, so its members are told. So is one of another query under this number, and where
        numbers are given again this follower is on another history than the caller: raises StaleRead.
        """
        other = self.find(query)
        if other is not None and other.number != number:
            self._release_channel(other)
        found = self.channels.get(number)
        if found is not None and found.query.text != query.text:
            self._release_channel(found)
            raise StaleRead
        if found is None:
            found = self.channels[number] = Channel(number, query)
            self._numbers[query.text] = number
        return found

    def drop(self, member: Member) -> None:
        """Forget a member, and its channel with its last."""
        self.members.discard(member)
        member.waiting = False
        channel, member.channel = member.channel, None
        if channel is not None:
            channel.remove(member)
            if channel.empty and self.channels.get(channel.number) is channel:
                del self.channels[channel.number]
                if self._numbers.get(channel.query.text) == channel.number:
                    del self._numbers[channel.query.text]

    def release(self, member: Member, ending: Ending) -> None:
        """Let go of a member: one that has no answer yet starts over, others are told."""
        self.drop(member)
        member.lose()
        if member.told:
            member.sink.ended(ending)

    def release_all(self, ending: Ending) -> None:
        """Let go of everybody."""
        for member in self.members:
            self.release(member, ending)
        for channel in list(self.channels.values()):
            self._release_channel(channel, ending)

    def _release_channel(self, channel: Channel, ending: Ending = codes.INSUFFICIENT) -> None:
        for member in channel.members():
            self.release(member, ending)

    # --- freshness --------------------------------------------------------------------------------------

    def learn(self, info: ViewInfo) -> None:
        """Take the view's state as the store has it; tell the members when it turns stale or fresh."""
        self.stale_after = info.stale_after
        self.fresh = info.last_record
        if info.stale != self.stale:
            self.stale = info.stale
            self.notify(self.freshness())

    def freshness(self) -> bytes:
        """Say how fresh the view is, as subscribers are told."""
        return b'{"op":"stale","since":%d}' % self.fresh if self.stale else b'{"op":"fresh"}'
