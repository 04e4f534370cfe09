"""Which rows to look at again as time passes. Pure; made from the rows alone, so a restart loses nothing.

A condition such as ``starts < now() + 1h`` changes its mind about a row when the clock passes the row's own
moment less the offset. So the moments of all rows are kept in order, for each field that a query compares
with ``now()``; what is due between two times is a stretch of that order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from decimal import Decimal

from distributary.model.filter import Path
from distributary.model.filter.row_view import Row, slot_of
from distributary.model.filter.time_transitions import anchors
from distributary.model.query import Query
from distributary.reducers.row_json import Fields

Moment = int | Decimal

_HORIZON = 10**18


class _Field:
    """The rows' moments in one field."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.ordered: list[tuple[Moment, str]] = []
        self.by_key: dict[str, Moment] = {}

    def put(self, key: str, moment: Moment | None) -> None:
        held = self.by_key.get(key)
        if held == moment:
            return
        if held is not None:
            del self.ordered[bisect_left(self.ordered, (held, key))]
            del self.by_key[key]
        if moment is not None:
            insort(self.ordered, (moment, key))
            self.by_key[key] = moment

    def between(self, first: Moment, last: Moment) -> Iterator[tuple[Moment, str]]:
        start = bisect_left(self.ordered, (first, ""))
        end = bisect_right(self.ordered, last, key=lambda pair: pair[0])
        return iter(self.ordered[start:end])


class Moments:
    """Watches timed queries and keeps the moments of rows that they depend on."""

    def __init__(self) -> None:
        self._fields: dict[Path, _Field] = {}
        self._watched: dict[int, tuple[tuple[Path, int], ...]] = {}

    def __bool__(self) -> bool:
        """Whether any query is watched."""
        return bool(self._watched)

    def __len__(self) -> int:
        """How many moments are held."""
        return sum(len(field.by_key) for field in self._fields.values())

    def watch(self, number: int, query: Query) -> bool:
        """Take a query in; True when it looks at a field whose moments are not held yet: note all rows."""
        if number in self._watched or query.filter is None:
            return False
        found = tuple(anchors(query.filter))
        if not found:
            return False
        self._watched[number] = found
        new = any(path not in self._fields for path, _ in found)
        for path, offset in found:
            offsets = self._fields.setdefault(path, _Field()).offsets
            offsets[offset] = offsets.get(offset, 0) + 1
        return new

    def drop(self, number: int) -> None:
        """Let a query go, with the moments that only it needed."""
        for path, offset in self._watched.pop(number, ()):
            field = self._fields[path]
            field.offsets[offset] -= 1
            if not field.offsets[offset]:
                del field.offsets[offset]
            if not field.offsets:
                del self._fields[path]

    def clear(self) -> None:
        """Let all go."""
        self._fields.clear()
        self._watched.clear()

    def note(self, key: str, row: Fields | None) -> None:
        """Hold a row's moments as they are now; None when it is gone. Again is no change."""
        if not self._fields:
            return
        seen = Row(row) if row is not None else None
        for path, field in self._fields.items():
            value = seen[slot_of(path, "now")] if seen is not None else None
            ok = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
            field.put(key, value if ok and -_HORIZON < value < _HORIZON else None)  # type: ignore[operator,arg-type]

    def due(self, after: int, upto: int, limit: int) -> tuple[list[str], int]:
        """Rows about which a query may change its mind after one time and by another.

        At most about ``limit`` of them; the second value is the time that is reached with these.
        """
        found = sorted(self._due(after, upto))
        if len(found) > limit:
            upto = found[limit][0]
        return list(dict.fromkeys(key for at, key in found if at <= upto)), upto

    def next(self, after: int) -> int | None:
        """The first time after another at which anything may be due; None: never."""
        best: int | None = None
        for field in self._fields.values():
            for offset in field.offsets:
                start = bisect_left(field.ordered, (after + offset, ""))
                for moment, _ in field.ordered[start : start + 2]:
                    for at in _times(moment, offset):
                        if at > after and (best is None or at < best):
                            best = at
        return best

    def _due(self, after: int, upto: int) -> Iterable[tuple[int, str]]:
        for field in self._fields.values():
            for offset in field.offsets:
                for moment, key in field.between(after + offset - 1, upto + offset):
                    for at in _times(moment, offset):
                        if after < at <= upto:
                            yield at, key


def _times(moment: Moment, offset: int) -> tuple[int, int]:
    """When a comparison of a moment with now plus an offset changes: as now reaches it, and once past."""
    whole = int(moment // 1)
    return (whole if whole == moment else whole + 1) - offset, whole + 1 - offset
