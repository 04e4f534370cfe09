"""How subscriptions end: at once when their subscriber says so, else when their time is over.

A subscriber that leaves without a word may come back, so its subscription stays until it lapses. Its query is
matched until then and costs what it did before. A user may have as many of these as it may have
subscriptions: a user that opens new ones and leaves, over and over, ends its own oldest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distributary.auth.reservations import Reservation
from distributary.errors import DistributaryError
from distributary.model.command import Command
from distributary.store.contract import ReaderStore

if TYPE_CHECKING:
    from distributary.publisher.hub.subscription import Subscription

log = logging.getLogger(__name__)

Announce = Callable[[Command], Awaitable[None]]
"""Writes a command to the commands topic."""


class Abandoned(NamedTuple):
    """A subscription of a view that has no subscriber any more."""

    view: str
    subscription: str


class _Entry(NamedTuple):
    abandoned: Abandoned
    cost: int
    lapses_at: float


class AbandonedSubscriptions:
    """What the users of one process abandoned, oldest first. An entry has lapsed ``ttl`` seconds later."""

    def __init__(self, ttl: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl = ttl
        self._clock = clock
        # In the order of each user's newest entry.
        self._by_user: OrderedDict[str, deque[_Entry]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._by_user.values()))

    def add(self, reservation: Reservation, abandoned: Abandoned) -> list[Abandoned]:
        """Add one, by what it counted as; return those beyond its user's limit, to be ended."""
        now = self._clock()
        self._forget_lapsed(now)
        if reservation.limit is None:
            return []
        entries = self._by_user.setdefault(reservation.name, deque())
        self._by_user.move_to_end(reservation.name)
        while entries and entries[0].lapses_at <= now:
            entries.popleft()
        entries.append(_Entry(abandoned, reservation.amount, now + self._ttl))
        cost = sum(entry.cost for entry in entries)
        beyond = []
        while cost > reservation.limit:
            oldest = entries.popleft()
            cost -= oldest.cost
            beyond.append(oldest.abandoned)
        return beyond

    def _forget_lapsed(self, now: float) -> None:
        """Forget users whose entries have all lapsed."""
        while self._by_user:
            name, entries = next(iter(self._by_user.items()))
            if entries and entries[-1].lapses_at > now:
                break
            del self._by_user[name]


class SubscriptionEnder:
    """Ends subscriptions in the store, and announces on the commands topic what begins and ends."""

    def __init__(self, store: ReaderStore, ttl: float, announce: Announce | None) -> None:
        self._store = store
        self._announce = announce
        self._abandoned = AbandonedSubscriptions(ttl)
        self._tasks: set[asyncio.Task[None]] = set()

    def abandon(self, subscription: Subscription) -> None:
        """Let a subscription lapse, and end those of its user that are too many by now."""
        # One that the control API created is counted there.
        if subscription.reservation is None or not subscription.created_here:
            return
        abandoned = Abandoned(subscription.follower.view, subscription.id)
        for view, id in self._abandoned.add(subscription.reservation, abandoned):
            self.spawn(self._end_in_store(view, id, tell=False))

    def end(self, subscription: Subscription) -> None:
        """End a subscription at once."""
        # One that was created elsewhere may be served elsewhere, too.
        tell = not subscription.created_here
        self.spawn(self._end_in_store(subscription.follower.view, subscription.id, tell=tell))

    async def _end_in_store(self, view: str, id: str, *, tell: bool) -> None:
        try:
            await self._store.end(view, id, notify=tell)
        except Exception as error:
            log.warning("view %s: a subscription could not be ended and will lapse (%s)", view, error)
        else:
            await self._write_command(Command("end", view, id))

    def announce(self, command: Command) -> None:
        """Write a command to the commands topic, without waiting for it."""
        if self._announce is not None:
            self.spawn(self._write_command(command))

    async def announce_ended(self, view: str, ids: Sequence[str]) -> None:
        """Announce that subscriptions have ended: the reducers of a view without records learn it only so."""
        await asyncio.gather(*(self._write_command(Command("end", view, id)) for id in ids))

    async def _write_command(self, command: Command) -> None:
        if self._announce is not None:
            try:
                await self._announce(command)
            except DistributaryError as error:
                log.warning("a command was not announced; the registry in the store has it (%s)", error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task until ``close``."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel all tasks."""
        await cancel(*self._tasks)


async def cancel(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until they are done: a wait that ends at the same time can swallow a cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)
