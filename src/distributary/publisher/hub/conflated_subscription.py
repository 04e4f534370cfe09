"""A member at a pace of its own: the clock and the room that its reader leaves, around a ``Queue``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from distributary.publisher.codec.publication import Step
from distributary.publisher.hub.conflation import Pace, Queue, RowQueue
from distributary.publisher.hub.kept import Kept
from distributary.publisher.hub.top_n import TopQueue

if TYPE_CHECKING:
    from distributary.publisher.hub.subscription import Channel, Member

PATIENCE, MOST_PATIENCE = 0.02, 1.0
"""How often a reader that does not read is looked at, in seconds: at first, and at last."""


class Paced:
    """Sends a member the newest rows when its pace and its reader allow it.

    ``direct``: it keeps up and gets every change, as others do; only with a pace that is for slowness alone.
    """

    def __init__(self, member: Member, channel: Channel, kept: Kept, pace: Pace, after: int = 0) -> None:
        self.direct = False
        self.pace = pace
        self._member = member
        self._channel = channel
        self._kept = kept
        self._queue = self._fresh(after)
        self._before = (0, 0)
        self._counted = (0, 0)
        self._next = 0.0
        self._patience = PATIENCE
        self._held = True
        self._timer: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()

    def _fresh(self, after: int = 0) -> Queue:
        kept = self._kept
        return RowQueue(kept.rows, after) if kept.top is None else TopQueue(kept.top, kept.rows)

    @property
    def conflated(self) -> int:
        """Changes that a later one of the same row overtook."""
        return self._before[0] + self._queue.conflated

    @property
    def dropped(self) -> int:
        """Changes of rows that came and went between two sends."""
        return self._before[1] + self._queue.dropped

    def start(self, missed: Iterable[Step] = (), top: int = 0) -> None:
        """Begin to send. ``missed`` came before all that was taken so far; the log went up to ``top``."""
        if isinstance(self._queue, RowQueue):
            self._queue.precede(missed, top)
        self._held = False
        # Others of the same pace came at the same moment, or wait for the same change: they take turns.
        self._next = self._loop.time() + random.random() * self.pace.interval
        self._arm()

    def stop(self) -> None:
        """Send no more."""
        self._count()
        self._held = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ease(self) -> None:
        """Look at the reader before changes are applied: one that fell behind gets the newest from now on."""
        if self.direct and self._member.sink.room() <= 0:
            self.direct = False
            self._channel.step_aside(self._member)
            self._before = (self.conflated, self.dropped)
            self._queue = self._fresh()

    def take(self, steps: Iterable[Step]) -> None:
        """Take changes; the rows have them already."""
        if not self.direct:
            for step in steps:
                self._queue.touch(step)
            self._arm()

    def _count(self) -> None:
        """Add to the counts of the process what came since it was last done."""
        now, stats = (self.conflated, self.dropped), self._member.follower.stats
        stats.conflated += now[0] - self._counted[0]
        stats.dropped += now[1] - self._counted[1]
        self._counted = now

    def _arm(self) -> None:
        if self._timer is None and not self._held and self._queue.waiting:
            self._timer = self._loop.call_at(max(self._next, self._loop.time()), self._send)

    def _send(self) -> None:
        self._timer = None
        member, follower = self._member, self._member.follower
        room = member.sink.room()
        if room <= 0:
            self._timer = self._loop.call_later(self._patience, self._send)
            self._patience = min(MOST_PATIENCE, self._patience * 2)
            return
        self._patience = PATIENCE
        most, size = self.pace.portion()
        pubs = self._queue.take(self._kept.at(follower.seq), most, min(size, room))
        follower.send(member, pubs)
        self._count()
        self._next = self._loop.time() + self.pace.wait(len(pubs), sum(len(data) for _, data in pubs))
        if self._queue.waiting:
            self._arm()
        elif self.pace.only_when_slow and self._kept.live(follower.seq):
            self.direct = True
            self._channel.go_live(member)
