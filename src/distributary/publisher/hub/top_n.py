"""The first n rows of a query in an order, and how they change. Pure.

All rows of the query are ranked, so that the next one is at hand when one of the first leaves. A row that
leaves is sent before the one that takes its place, so that a subscriber that applies everything it is sent
never has more than n rows. ``at`` is the rank of a row after the change, counted from 0: take the row out of
the list if it is there, and insert it at that rank.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from distributary.model.order import Order, Rank
from distributary.publisher.codec.publication import (
    Publication,
    RowChange,
    removal_data,
    row_data,
    with_rank,
)

_UNRANKED = 1 << 62


class TopRows:
    """Ranks all ``rows``, which belong to a ``MaterializedQuery``: it changes them, then calls ``apply``."""

    def __init__(self, order: Order, rows: Mapping[str, bytes]) -> None:
        self._order = order
        self._rows = rows
        self._ranks: dict[str, Rank] = {}
        self._sorted: list[Rank] = []

    @property
    def keys(self) -> list[str]:
        """The keys of the first rows, in order."""
        return [rank[-1] for rank in self._sorted[: self._order.limit]]

    def rank_all(self) -> None:
        """Rank all rows from scratch."""
        self._ranks = {key: self._order.rank(key, row) for key, row in self._rows.items()}
        self._sorted = sorted(self._ranks.values())

    def apply(self, change: RowChange) -> list[RowChange]:
        """Rank a row that changed; return what that means for the first rows."""
        limit, ranks = self._order.limit, self._sorted
        key = change.key
        was_first = self._remove(key) < limit
        row = self._rows.get(key)
        at = self._insert(key, row) if row is not None else len(ranks)
        is_first = row is not None and at < limit
        if was_first and is_first:
            return [change._replace(data=with_rank(change.data, at))]
        if was_first:
            changes = [self._leaves(change, key)]
            if len(ranks) >= limit:
                changes.append(self._enters(change, ranks[limit - 1][-1], limit - 1))
            return changes
        if is_first:
            changes = [self._leaves(change, ranks[limit][-1])] if len(ranks) > limit else []
            return [*changes, self._enters(change, key, at)]
        return []

    def _remove(self, key: str) -> int:
        """Remove a row; return its rank, or one behind all others when it was not there."""
        rank = self._ranks.pop(key, None)
        if rank is None:
            return _UNRANKED
        at = bisect_left(self._sorted, rank)
        del self._sorted[at]
        return at

    def _insert(self, key: str, row: bytes) -> int:
        rank = self._ranks[key] = self._order.rank(key, row)
        at = bisect_left(self._sorted, rank)
        self._sorted.insert(at, rank)
        return at

    def _leaves(self, change: RowChange, key: str) -> RowChange:
        return RowChange(change.seq, removal_data(key, change.time), "remove", key, change.time)

    def _enters(self, change: RowChange, key: str, at: int) -> RowChange:
        data = with_rank(row_data(key, change.time, self._rows[key]), at)
        return RowChange(change.seq, data, "add", key, change.time)


class TopQueue:
    """Implements ``Queue`` for the first rows: what one subscriber shows, and what it has not been sent.

    All publications carry the hub's number: a query with an order is resumed by a new snapshot.
    """

    def __init__(self, top: TopRows, rows: Mapping[str, bytes]) -> None:
        self.conflated = 0
        self.dropped = 0
        self._top = top
        self._rows = rows
        # The keys that the subscriber shows, in its order.
        self._shown = top.keys
        # Rows that it does not show as they are, with the time of their last change.
        self._dirty: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return len(self._dirty)

    def add(self, change: RowChange) -> None:
        """Add a change of the first rows."""
        if change.key in self._dirty:
            self.conflated += 1
        self._dirty[change.key] = change.time

    def take(self, seq: int, max_count: int, max_size: int) -> list[Publication]:
        """Return what brings the subscriber closer to the first rows as they are.

        Rows that did not change keep their order among each other. So where any row moved, those that changed
        are taken out first; then every row can be inserted at its rank, the first one first.
        """
        final = self._top.keys
        wanted, shown = set(final), set(self._shown)
        moved = [k for k in self._shown if k in wanted] != [k for k in final if k in shown]
        found: list[Publication] = []

        def publish(data: bytes) -> bool:
            nonlocal max_size
            if found and (len(found) >= max_count or len(data) > max_size):
                return False
            found.append((seq, data))
            max_size -= len(data)
            return True

        for key in list(self._shown):
            if key not in wanted or (moved and key in self._dirty):
                if not publish(removal_data(key, self._dirty.get(key, 0))):
                    return found
                self._shown.remove(key)
                shown.discard(key)
                if key not in wanted:
                    self._dirty.pop(key, None)
        for at, key in enumerate(final):
            if key in self._dirty or key not in shown:
                if not publish(with_rank(row_data(key, self._dirty.get(key, 0), self._rows[key]), at)):
                    return found
                if key not in shown:
                    self._shown.insert(at, key)
                self._dirty.pop(key, None)
        self.dropped += len(self._dirty)  # rows that came and went
        self._dirty.clear()
        return found
