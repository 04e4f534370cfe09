"""Subscriptions whose subscribers left without a word and may come back, bounded for each user.

Their queries are matched until they lapse, so they cost what they did before. A user may have as many of
them as it may have subscriptions: who opens new ones and leaves, over and over, ends its own oldest.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from distributary.auth.reservations import Reservation


class Left(NamedTuple):
    """A subscription of a view that nobody is served under."""

    view: str
    subscription: str


class _Entry(NamedTuple):
    left: Left
    cost: int
    lapses: float


class Lingering:
    """What users of one process left, oldest first; ``ttl`` seconds later it has lapsed by itself."""

    def __init__(self, ttl: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl = ttl
        self._clock = clock
        self._by_user: OrderedDict[str, deque[_Entry]] = OrderedDict()  # by whose last one is oldest

    def __len__(self) -> int:
        return sum(map(len, self._by_user.values()))

    def add(self, share: Reservation, left: Left) -> list[Left]:
        """Note one, by what it counted as; gives those that are too many, to be ended."""
        now = self._clock()
        self._forget(now)
        if share.limit is None:
            return []
        entries = self._by_user.setdefault(share.name, deque())
        self._by_user.move_to_end(share.name)
        while entries and entries[0].lapses <= now:
            entries.popleft()
        entries.append(_Entry(left, share.amount, now + self._ttl))
        cost = sum(entry.cost for entry in entries)
        over = []
        while cost > share.limit:
            oldest = entries.popleft()
            cost -= oldest.cost
            over.append(oldest.left)
        return over

    def _forget(self, now: float) -> None:
        """Forget users of whom all has lapsed."""
        while self._by_user:
            name, entries = next(iter(self._by_user.items()))
            if entries and entries[-1].lapses > now:
                break
            del self._by_user[name]
