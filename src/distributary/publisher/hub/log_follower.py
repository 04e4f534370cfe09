"""Follow one view's log and hand its changes to the channels that they concern (R16).

All of it runs in one thread of one event loop, without an await between taking a batch and having written it.
So a subscription that other code adds or removes gets a batch completely or not at all.
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
from distributary.publisher.codec.publication import Publication
from distributary.publisher.hub.channel import Channel
from distributary.publisher.hub.join_buffer import BufferOverflow
from distributary.publisher.hub.materialized_query import RowsDiverged, TooManyRows
from distributary.publisher.hub.subscription import Subscription, SubscriptionMap
from distributary.publisher.metrics import Counters
from distributary.store.build_scan import StaleRead
from distributary.store.contract import ReaderStore
from distributary.store.log_events import Attached, Begun, Ended, Entries, Lapsed, TailEvent
from distributary.store.store_types import ViewInfo

log = logging.getLogger(__name__)

FIRST_DELAY, LAST_DELAY = 0.1, 2.0
"""Seconds between two attempts to read the log, at first and at most."""


class Follower:
    """One view as this process sees it: how far its log was read, and its subscriptions."""

    def __init__(
        self,
        store: ReaderStore,
        view: str,
        stats: Counters,
        on_begin: Callable[[Follower, str], None],
    ) -> None:
        self.view = view
        self.stats = stats
        # How far the log was read, and in which build, epoch and history of the server.
        self.build = Build(view, "")
        self.epoch = ""
        self.seq = 0
        self.history_id = ""
        # How often it was attached to the log. What was read before an attachment may not join up with what
        # is read after it.
        self.attachments = 0
        # The view does not exist any more.
        self.gone = False
        # Whether the view's source is silent, since when, and after how many seconds it counts as silent.
        self.stale = False
        self.fresh = 0
        self.stale_after: float | None = None
        # Since when it is idle, by the loop's clock; None while it is not.
        self.idle_since: float | None = None
        # The channels by their query's number, and the numbers by the query's text.
        self.channels: dict[int, Channel] = {}
        self._numbers: dict[str, int] = {}
        self.subscriptions = SubscriptionMap()
        # How many joins are under way, which may have no subscription here yet.
        self.joins = 0
        self._store = store
        self._latency = stats.latency(view)
        self._on_begin = on_begin
        # Set and replaced at every attachment.
        self._attached = asyncio.Event()

    # --- the log ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the view until it is gone; a store that fails is tried again with back-off."""
        delay = 0.0
        while True:
            try:
                async for event in self._store.tail(self.view):
                    delay = 0.0
                    self._take(event)
                    if self.gone:
                        return
            except Exception as error:  # whatever a store may raise, following goes on
                log.warning("view %s: cannot follow its log (%s)", self.view, error or type(error).__name__)
            delay = min(LAST_DELAY, delay * 2 or FIRST_DELAY)
            await asyncio.sleep(delay)

    async def wait_attached(self, attachments: int, timeout: float) -> None:
        """Wait until it was attached more often than that. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while self.attachments <= attachments and not self.gone:
                await self._attached.wait()

    def _take(self, event: TailEvent) -> None:
        if isinstance(event, Entries):
            self.fan_out(event.entries)
        elif isinstance(event, Attached):
            self.attach(event)
        elif isinstance(event, Begun):
            self._on_begin(self, event.subscription)
        elif isinstance(event, Ended):
            for subscription in self.subscriptions.by_id(event.subscription):
                self.release(subscription, codes.ENDED)
        elif isinstance(event, Lapsed):
            # Its query is not matched any more, until a new subscribe registers it.
            for id in event.subscriptions:
                for subscription in self.subscriptions.by_id(id):
                    self.release(subscription, codes.INSUFFICIENT)
        else:
            self.gone = True
            self.release_all(codes.VIEW_DELETED)
            self._wake()

    def attach(self, event: Attached) -> None:
        """Start at another position: what was sent before may not join up with what comes now."""
        self.build, self.epoch, self.seq, self.history_id = event
        self.attachments += 1
        self.release_all(codes.INSUFFICIENT)
        self._wake()

    def _wake(self) -> None:
        attached, self._attached = self._attached, asyncio.Event()
        attached.set()

    # --- the fan-out ------------------------------------------------------------------------------------

    def fan_out(self, entries: Sequence[Entry]) -> None:
        """Hand a batch of the log to its channels: one encoding per encoder, one write per subscription."""
        if entries and entries[0].first != self.seq + 1:
            log.error("view %s: its log jumps from %d to %d", self.view, self.seq, entries[0].first)
            self.seq = entries[-1].last
            self.release_all(codes.INSUFFICIENT)
            return
        channels = self.channels
        batches: dict[int, list[Publication]] = {}
        times: list[int] = []
        for entry in entries:
            for seq, change in entry.numbered():
                published = False
                for numbers, write_data in (
                    (change.changes, change_data),
                    (change.adds, add_data),
                    (change.removes, remove_data),
                ):
                    publication: Publication | None = None
                    for number in numbers:
                        if number in channels:
                            if publication is None:
                                publication = (seq, write_data(change))
                            batches.setdefault(number, []).append(publication)
                            published = True
                if published:
                    times.append(change.time)
        if entries:
            self.seq = entries[-1].last
        for number, publications in batches.items():
            self._deliver(channels[number], publications)
        if times:
            self._latency.observe_all(times)

    def _deliver(self, channel: Channel, publications: Sequence[Publication]) -> None:
        stats = self.stats
        if channel.materialized is not None:
            publications = self._materialize(channel, publications)
            if not publications:
                return
        for encoder in channel.encoders.values():
            data = encoder.encode(self.epoch, publications)
            if not data:
                continue  # nothing of it concerns the fields that were requested
            live = encoder.live
            for write in live.values():
                write(data)
            count = len(live)
            stats.deliveries += count * len(publications)
            stats.writes += count
            stats.bytes += count * len(data)
        for subscription in list(channel.joining):
            self._deliver_joining(subscription, publications)

    def _materialize(self, channel: Channel, publications: Sequence[Publication]) -> Sequence[Publication]:
        """Apply publications to the rows and queue them for conflated subscriptions.

        Returns what all other subscriptions are sent: with an order, only the changes of the first rows.
        """
        materialized, ordered = channel.materialized, channel.query.order is not None
        assert materialized is not None
        # Before the rows change: a conflated subscription that falls behind starts from the rows it was sent.
        for conflated in channel.conflated.values():
            conflated.fall_back_if_slow()
        try:
            changes = materialized.apply(publications)
        except (BufferOverflow, TooManyRows, RowsDiverged):
            for subscription in list(channel.needs_rows):
                self.release(subscription, codes.INSUFFICIENT)
            return () if ordered else publications
        for conflated in channel.conflated.values():
            conflated.add(changes)
        return [(change.seq, change.data) for change in changes] if ordered else publications

    def _deliver_joining(self, subscription: Subscription, publications: Sequence[Publication]) -> None:
        buffer = subscription.buffer
        if buffer is None:
            return
        try:
            self.send(subscription, buffer.take(publications))
        except BufferOverflow:
            self.release(subscription, codes.INSUFFICIENT)
            return
        self.go_live_if_passed(subscription)

    def go_live_if_passed(self, subscription: Subscription) -> None:
        """Make a subscription live if the log has passed its state."""
        channel, buffer = subscription.channel, subscription.buffer
        if channel is not None and buffer is not None and buffer.passed(self.seq):
            channel.go_live(subscription)

    def send(self, subscription: Subscription, publications: Sequence[Publication]) -> None:
        """Write publications to one subscription alone."""
        if publications:
            data = subscription.sink.encoder().encode(self.epoch, publications)
            if not data:
                return
            subscription.sink.write(data)
            self.stats.deliveries += len(publications)
            self.stats.writes += 1
            self.stats.bytes += len(data)

    def notify(self, data: bytes) -> None:
        """Write a message without a position to every live subscription."""
        for channel in self.channels.values():
            for encoder in channel.encoders.values():
                frame = encoder.encode_notice(data)
                for write in encoder.live.values():
                    write(frame)
            for subscription, conflated in channel.conflated.items():
                if subscription.answered and not conflated.direct:
                    subscription.sink.write(subscription.sink.encoder().encode_notice(data))

    # --- subscriptions ----------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether it has no subscription, and none is joining."""
        return not self.subscriptions and not self.channels and not self.joins

    def find(self, query: Query) -> Channel | None:
        """Return the channel of a query, if it has one here."""
        return self.channels.get(self._numbers.get(query.text, 0))

    def channel(self, number: int, query: Query) -> Channel:
        """Find or create the channel of a query.

        A channel of the same query under another number is one that the store has forgotten: it gets no
        changes any more, so its subscriptions are sent back. So is a channel of another query under this
        number: where numbers are given again, this follower is on another history than the caller. Then this
        raises StaleRead.
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

    def drop(self, subscription: Subscription) -> None:
        """Remove a subscription, and its channel with its last one."""
        self.subscriptions.discard(subscription)
        subscription.waiting = False
        channel, subscription.channel = subscription.channel, None
        if channel is not None:
            channel.remove(subscription)
            if channel.empty and self.channels.get(channel.number) is channel:
                del self.channels[channel.number]
                if self._numbers.get(channel.query.text) == channel.number:
                    del self._numbers[channel.query.text]

    def release(self, subscription: Subscription, ending: Ending) -> None:
        """Drop a subscription: one without an outcome joins again, others get the reason."""
        self.drop(subscription)
        subscription.detached = True
        if subscription.answered:
            subscription.sink.end(ending)

    def release_all(self, ending: Ending) -> None:
        """Drop all subscriptions."""
        for subscription in self.subscriptions:
            self.release(subscription, ending)
        for channel in list(self.channels.values()):
            self._release_channel(channel, ending)

    def _release_channel(self, channel: Channel, ending: Ending = codes.INSUFFICIENT) -> None:
        for subscription in channel.subscriptions():
            self.release(subscription, ending)

    # --- freshness --------------------------------------------------------------------------------------

    def update(self, info: ViewInfo) -> None:
        """Take the view's state from the store; notify the subscribers when it turns stale or fresh."""
        self.stale_after = info.stale_after
        self.fresh = info.last_record
        if info.stale != self.stale:
            self.stale = info.stale
            self.notify(self.freshness_notice())

    def freshness_notice(self) -> bytes:
        """Return what subscribers are sent about the view's freshness."""
        return b'{"op":"stale","since":%d}' % self.fresh if self.stale else b'{"op":"fresh"}'
