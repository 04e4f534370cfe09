"""Which rows to match again as time passes. Pure; derived from the rows alone, so a restart loses nothing.

A condition such as ``starts < now() + 1h`` changes its result for a row when the clock passes the time in the
row's field less the offset. So the times of all rows are kept in order, for each field that a query compares
with ``now()``; what is due between two times is a range of that order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from decimal import Decimal

from distributary.model.filter import Path
from distributary.model.filter.row_view import RowView, slot_of
from distributary.model.filter.time_transitions import anchors
from distributary.model.query import Query
from distributary.reducers.row_json import Fields

Time = int | Decimal
"""Milliseconds, as a row's field has them."""

_HORIZON = 10**18


class _FieldTimes:
    """The times that the rows have in one field."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        """By offset from ``now()``: how many queries compare the field with it."""
        self.ordered: list[tuple[Time, str]] = []
        self.by_key: dict[str, Time] = {}

    def put(self, key: str, time: Time | None) -> None:
        before = self.by_key.get(key)
        if before == time:
            return
        if before is not None:
            del self.ordered[bisect_left(self.ordered, (before, key))]
            del self.by_key[key]
        if time is not None:
            insort(self.ordered, (time, key))
            self.by_key[key] = time

    def between(self, first: Time, last: Time) -> Iterator[tuple[Time, str]]:
        start = bisect_left(self.ordered, (first, ""))
        end = bisect_right(self.ordered, last, key=lambda pair: pair[0])
        return iter(self.ordered[start:end])


class TimedQueries:
    """The queries that contain ``now()``, and the times in rows that they depend on."""

    def __init__(self) -> None:
        self._fields: dict[Path, _FieldTimes] = {}
        # By query number: the fields that it compares with now(), each with the offset.
        self._anchors: dict[int, tuple[tuple[Path, int], ...]] = {}

    def __bool__(self) -> bool:
        """Whether there is any query."""
        return bool(self._anchors)

    def __len__(self) -> int:
        """How many times are indexed."""
        return sum(len(field.by_key) for field in self._fields.values())

    def add(self, number: int, query: Query) -> bool:
        """Add a query; True if it depends on a field whose times are not indexed yet: scan all rows then."""
        if number in self._anchors or query.filter is None:
            return False
        found = tuple(anchors(query.filter))
        if not found:
            return False
        self._anchors[number] = found
        new = any(path not in self._fields for path, _ in found)
        for path, offset in found:
            offsets = self._fields.setdefault(path, _FieldTimes()).offsets
            offsets[offset] = offsets.get(offset, 0) + 1
        return new

    def remove(self, number: int) -> None:
        """Remove a query, with the times that only it needed."""
        for path, offset in self._anchors.pop(number, ()):
            field = self._fields[path]
            field.offsets[offset] -= 1
            if not field.offsets[offset]:
                del field.offsets[offset]
            if not field.offsets:
                del self._fields[path]

    def clear(self) -> None:
        """Remove all queries."""
        self._fields.clear()
        self._anchors.clear()

    def update(self, key: str, row: Fields | None) -> None:
        """Take over the times of a row as they are now; None when it is removed."""
        if not self._fields:
            return
        view = RowView(row) if row is not None else None
        for path, field in self._fields.items():
            value = view[slot_of(path, "now")] if view is not None else None
            ok = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
            field.put(key, value if ok and -_HORIZON < value < _HORIZON else None)  # type: ignore[operator,arg-type]

    def due(self, after: int, upto: int, limit: int) -> tuple[list[str], int]:
        """Return the rows for which a query may change its result after one time and until another.

        At most about ``limit`` of them; the second value is the time that is reached with these.
        """
        found = sorted(self._due(after, upto))
        if len(found) > limit:
            upto = found[limit][0]
        return list(dict.fromkeys(key for at, key in found if at <= upto)), upto

    def next_due(self, after: int) -> int | None:
        """The first time after another at which any row may be due; None: never."""
        best: int | None = None
        for field in self._fields.values():
            for offset in field.offsets:
                start = bisect_left(field.ordered, (after + offset, ""))
                for time, _ in field.ordered[start : start + 2]:
                    for at in _transitions(time, offset):
                        if at > after and (best is None or at < best):
                            best = at
        return best

    def _due(self, after: int, upto: int) -> Iterable[tuple[int, str]]:
        for field in self._fields.values():
            for offset in field.offsets:
                for time, key in field.between(after + offset - 1, upto + offset):
                    for at in _transitions(time, offset):
                        if after < at <= upto:
                            yield at, key


def _transitions(time: Time, offset: int) -> tuple[int, int]:
    """When a comparison of a time with now() plus an offset changes: as now() reaches it, and once past."""
    whole = int(time // 1)
    return (whole if whole == time else whole + 1) - offset, whole + 1 - offset
