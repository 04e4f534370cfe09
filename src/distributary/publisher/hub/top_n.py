"""The first n rows of a query in an order, and how they change. Pure.

All rows of the query are ordered, so that the next one is at hand when one of the first leaves. A row that
leaves is told before the one that takes its place, so that whoever applies all that is told never holds
more than n rows. ``at`` says where a row stands then, counted from 0: take it out of the list if it is there,
and put it in at that place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from distributary.model.order import Order, Rank
from distributary.publisher.codec.publication import Step, placed, removed, whole
from distributary.publisher.codec.websocket_frames import Pub


class Top:
    """Ranks all of ``rows``, which belong to somebody else: they are changed before ``apply`` is called."""

    def __init__(self, order: Order, rows: Mapping[str, bytes]) -> None:
        self._order = order
        self._rows = rows
        self._ranks: dict[str, Rank] = {}
        self._sorted: list[Rank] = []

    @property
    def keys(self) -> list[str]:
        """The keys of the first rows, in their order."""
        return [rank[-1] for rank in self._sorted[: self._order.limit]]

    def load(self) -> None:
        """Rank all rows anew."""
        self._ranks = {key: self._order.rank(key, row) for key, row in self._rows.items()}
        self._sorted = sorted(self._ranks.values())

    def apply(self, step: Step) -> list[Step]:
        """Take note that a row changed; returns what that means to the first rows."""
        limit, ranks = self._order.limit, self._sorted
        key = step.key
        was = self._remove(key) < limit
        row = self._rows.get(key)
        at = self._insert(key, row) if row is not None else len(ranks)
        now = row is not None and at < limit
        if was and now:
            return [step._replace(data=placed(step.data, at))]
        if was:
            steps = [self._gone(step, key)]
            if len(ranks) >= limit:
                steps.append(self._here(step, ranks[limit - 1][-1], limit - 1))
            return steps
        if now:
            steps = [self._gone(step, ranks[limit][-1])] if len(ranks) > limit else []
            return [*steps, self._here(step, key, at)]
        return []

    def _remove(self, key: str) -> int:
        """Forget a row; returns where it stood, far behind when it was not there."""
        rank = self._ranks.pop(key, None)
        if rank is None:
            return 1 << 62
        at = bisect_left(self._sorted, rank)
        del self._sorted[at]
        return at

    def _insert(self, key: str, row: bytes) -> int:
        rank = self._ranks[key] = self._order.rank(key, row)
        at = bisect_left(self._sorted, rank)
        self._sorted.insert(at, rank)
        return at

    def _gone(self, step: Step, key: str) -> Step:
        return Step(step.seq, removed(key, step.time), "remove", key, step.time)

    def _here(self, step: Step, key: str, at: int) -> Step:
        data = placed(whole(key, step.time, self._rows[key]), at)
        return Step(step.seq, data, "add", key, step.time)


class TopQueue:
    """The first rows for one subscriber at a pace of its own: what it shows, and what it has not been told.

    Implements ``Queue``. All publications carry the hub's number: the resume of an order is a state anew.
    """

    def __init__(self, top: Top, rows: Mapping[str, bytes]) -> None:
        self.conflated = 0
        self.dropped = 0
        self._top = top
        self._rows = rows
        self._shown = top.keys
        self._dirty: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """How many rows are not told as they are."""
        return len(self._dirty)

    def touch(self, step: Step) -> None:
        """Take note of a change of the first rows."""
        if step.key in self._dirty:
            self.conflated += 1
        self._dirty[step.key] = step.time

    def take(self, seq: int, most: int, room: int) -> list[Pub]:
        """Say what brings the subscriber nearer to the first rows as they are.

        Rows that did not change stand in the same order as before. So where any row moved, those that
        changed are taken out first; then every row can be put in at its place, the first one first.
        """
        final = self._top.keys
        wanted, shown = set(final), set(self._shown)
        moved = [k for k in self._shown if k in wanted] != [k for k in final if k in shown]
        pubs: list[Pub] = []

        def say(data: bytes) -> bool:
            nonlocal room
            if pubs and (len(pubs) >= most or len(data) > room):
                return False
            pubs.append((seq, data))
            room -= len(data)
            return True

        for key in list(self._shown):
            if key not in wanted or (moved and key in self._dirty):
                if not say(removed(key, self._dirty.get(key, 0))):
                    return pubs
                self._shown.remove(key)
                shown.discard(key)
                if key not in wanted:
                    self._dirty.pop(key, None)
        for at, key in enumerate(final):
            if key in self._dirty or key not in shown:
                if not say(placed(whole(key, self._dirty.get(key, 0), self._rows[key]), at)):
                    return pubs
                if key not in shown:
                    self._shown.insert(at, key)
                self._dirty.pop(key, None)
        self.dropped += len(self._dirty)  # rows that came and went
        self._dirty.clear()
        return pubs
