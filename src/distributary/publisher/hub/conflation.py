"""Conflation: the newest of each row instead of every change (R20).

A row that changed several times is sent once, whole, since changes of fields do not compose: first it may
have lost a field, then got it back. It keeps its place in the queue from its first change that was not sent,
so no row waits for ever. A publication's position is the one before the first change of the next row in the
queue: everything up to there is delivered, so a resume from it is correct. What the subscriber has may be
newer than its position, and is then sent once more.

``RowQueue`` is pure; ``ConflatedSubscription`` adds the clock, and the room that its reader leaves.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from distributary.publisher.codec.publication import Publication, RowChange, removal_data, row_data
from distributary.publisher.codec.subscribe_options import Conflation
from distributary.publisher.hub.top_n import TopQueue

if TYPE_CHECKING:
    from distributary.publisher.hub.channel import Channel
    from distributary.publisher.hub.materialized_query import MaterializedQuery
    from distributary.publisher.hub.subscription import Subscription

FIRST_RETRY, LAST_RETRY = 0.02, 1.0
"""Seconds until a reader that leaves no room is tried again: at first, and at most."""

MAX_BACKLOG = 65_536
"""How many bytes may wait for a reader that is sent the newest rows: what waits is the newest no longer."""


class Queue(Protocol):
    """What one subscriber has not been sent yet, and how many changes it is never sent one by one."""

    conflated: int
    dropped: int

    @property
    def waiting(self) -> int:
        """How many rows wait."""

    def add(self, change: RowChange) -> None:
        """Add a change, which the rows have already."""

    def take(self, seq: int, max_count: int, max_size: int) -> list[Publication]:
        """Return what is sent now: at most that many, within that many bytes if it is more than one.

        ``seq`` is the number at which the rows are true.
        """


class _WaitingRow:
    __slots__ = ("first", "sent_before", "time")

    def __init__(self, first: int, sent_before: bool, time: int) -> None:
        self.first = first
        self.sent_before = sent_before
        self.time = time


class RowQueue:
    """Implements ``Queue`` over rows that belong to a ``MaterializedQuery``.

    ``conflated`` counts changes that a later one of the same row replaced, ``dropped`` changes of rows that
    came and went between two sends: with what was sent and what waits, these are all changes that were added.
    Changes at or before ``after`` the subscriber has already, though they may be added later.
    """

    def __init__(self, rows: Mapping[str, bytes], after: int = 0) -> None:
        self.conflated = 0
        self.dropped = 0
        self._rows = rows
        self._after = after
        # Up to here the subscriber may have rows that are newer than its position.
        self._uncertain_until = 0
        self._waiting: OrderedDict[str, _WaitingRow] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    def add(self, change: RowChange) -> None:
        """Add a change. The first one of a row says whether the subscriber has the row."""
        found = self._waiting.get(change.key)
        if change.seq <= self._after:
            return
        if found is None:
            sent_before = change.op != "add" or change.seq <= self._uncertain_until
            self._waiting[change.key] = _WaitingRow(change.seq, sent_before, change.time)
        else:
            found.time = change.time
            self.conflated += 1

    def prepend_missed(self, changes: Iterable[RowChange], top: int) -> None:
        """Add changes that came before all that were added: what a resume missed.

        The subscriber may have rows that are newer than its position, though not newer than ``top``. So it
        may have a row that is added before that: if the row is removed again, that must be sent.
        """
        self._uncertain_until = top
        later, self._waiting = self._waiting, OrderedDict()
        for change in changes:
            self.add(change)
        for key, waiting in later.items():
            waiting.sent_before = waiting.sent_before or waiting.first <= top
            found = self._waiting.setdefault(key, waiting)
            if found is not waiting:
                found.time = waiting.time
                self.conflated += 1

    def take(self, seq: int, max_count: int, max_size: int) -> list[Publication]:
        """Return the rows that waited longest, as they are now, without those that came and went."""
        sent: list[bytes] = []
        positions: list[int] = []
        queue = self._waiting
        while queue:
            key, waiting = next(iter(queue.items()))
            row = self._rows.get(key)
            if row is None and not waiting.sent_before:
                del queue[key]
                self.dropped += 1
                continue
            data = removal_data(key, waiting.time) if row is None else row_data(key, waiting.time, row)
            if sent and (len(sent) >= max_count or len(data) > max_size):
                break
            del queue[key]
            sent.append(data)
            max_size -= len(data)
            # Everything before the next waiting row's first change is delivered, and no more than that.
            positions.append(next(iter(queue.values())).first - 1 if queue else seq)
        if sent and not queue:
            positions[-1] = seq
        return list(zip(positions, sent, strict=True))


class ConflatedSubscription:
    """Sends a subscription the newest rows when its options and its reader allow it."""

    def __init__(
        self,
        subscription: Subscription,
        channel: Channel,
        materialized: MaterializedQuery,
        options: Conflation,
        after: int = 0,
    ) -> None:
        # It keeps up and is sent every change, as others are; only where conflation is for slowness alone.
        self.direct = False
        self.options = options
        self._subscription = subscription
        self._channel = channel
        self._materialized = materialized
        self._queue = self._new_queue(after)
        # Changes conflated and dropped by queues before this one, and those that the metrics have.
        self._earlier = (0, 0)
        self._reported = (0, 0)
        # When it may send again, by the loop's clock.
        self._next_send = 0.0
        self._retry_delay = FIRST_RETRY
        # It has not started, or was stopped: changes are queued, nothing is sent.
        self._stopped = True
        self._timer: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()

    def _new_queue(self, after: int = 0) -> Queue:
        found = self._materialized
        return RowQueue(found.rows, after) if found.top is None else TopQueue(found.top, found.rows)

    @property
    def conflated(self) -> int:
        """Changes that a later one of the same row replaced."""
        return self._earlier[0] + self._queue.conflated

    @property
    def dropped(self) -> int:
        """Changes of rows that came and went between two sends."""
        return self._earlier[1] + self._queue.dropped

    def start(self, missed: Iterable[RowChange] = (), top: int = 0) -> None:
        """Start sending. ``missed`` came before all that was queued so far; the log went up to ``top``."""
        if isinstance(self._queue, RowQueue):
            self._queue.prepend_missed(missed, top)
        self._stopped = False
        # Spread those with the same interval, which joined at the same time or wait for the same change.
        self._next_send = self._loop.time() + random.random() * self.options.interval
        self._schedule()

    def stop(self) -> None:
        """Stop sending."""
        self._report()
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fall_back_if_slow(self) -> None:
        """Start to conflate if the reader fell behind. Call it before changes are applied to the rows."""
        if self.direct and self._subscription.sink.room() <= 0:
            self.direct = False
            self._channel.leave_encoder(self._subscription)
            self._earlier = (self.conflated, self.dropped)
            self._queue = self._new_queue()

    def add(self, changes: Iterable[RowChange]) -> None:
        """Queue changes, which the rows have already."""
        if not self.direct:
            for change in changes:
                self._queue.add(change)
            self._schedule()

    def _report(self) -> None:
        """Add to the process's counters what came since the last call."""
        now, stats = (self.conflated, self.dropped), self._subscription.follower.stats
        stats.conflated += now[0] - self._reported[0]
        stats.dropped += now[1] - self._reported[1]
        self._reported = now

    def _schedule(self) -> None:
        if self._timer is None and not self._stopped and self._queue.waiting:
            self._timer = self._loop.call_at(max(self._next_send, self._loop.time()), self._send)

    def _send(self) -> None:
        self._timer = None
        subscription, follower = self._subscription, self._subscription.follower
        room = subscription.sink.room()
        if room <= 0:
            self._timer = self._loop.call_later(self._retry_delay, self._send)
            self._retry_delay = min(LAST_RETRY, self._retry_delay * 2)
            return
        self._retry_delay = FIRST_RETRY
        max_count, max_size = self.options.portion()
        found = self._queue.take(self._materialized.position(follower.seq), max_count, min(max_size, room))
        follower.send(subscription, found)
        self._report()
        sent = sum(len(data) for _, data in found)
        self._next_send = self._loop.time() + self.options.wait(len(found), sent)
        if self._queue.waiting:
            self._schedule()
        elif self.options.only_when_slow and self._materialized.passed(follower.seq):
            self.direct = True
            self._channel.go_live(subscription)
