"""Live queries in indexes, so that a change costs by its matches and not by the queries there are.

Membership is decided from the old and the new row alone: nothing here would be
lost by a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from distributary.model.query import Query, Value, canonical
from distributary.reduce.rows import Fields


class Matches(NamedTuple):
    """Numbers of the queries that a change concerns, each list sorted."""

    adds: list[int]
    changes: list[int]
    removes: list[int]


class QueryIndex:
    """Finds the queries that a row belongs to.

    Both directions are kept: row key (or field and value) to queries, and
    query to what it asks, so that a query leaves no trace when it goes.
    """

    def __init__(self) -> None:
        self._queries: dict[int, Query] = {}
        self._whole: set[int] = set()
        self._by_key: dict[str, set[int]] = {}
        self._by_value: dict[str, dict[Value, set[int]]] = {}
        self._looked: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def sizes(self) -> dict[str, int]:
        """Count what is held, to see that it shrinks again."""
        values = sum(len(held) for held in self._by_value.values())
        return {"queries": len(self._queries), "keys": len(self._by_key), "values": values}

    def numbers(self) -> Iterable[int]:
        """The queries held."""
        return self._queries.keys()

    def add(self, number: int, query: Query) -> None:
        """Hold a query; again is no change."""
        if number in self._queries:
            return
        self._queries[number] = query
        for field, _ in query.equals:
            self._looked[field] = self._looked.get(field, 0) + 1
        if query.keys is not None:
            for key in query.keys:
                self._by_key.setdefault(key, set()).add(number)
        elif query.equals:
            field, value = query.equals[0]
            self._by_value.setdefault(field, {}).setdefault(value, set()).add(number)
        else:
            self._whole.add(number)

    def remove(self, number: int) -> None:
        """Let a query go; one that is not held is no error."""
        query = self._queries.pop(number, None)
        if query is None:
            return
        for field, _ in query.equals:
            self._looked[field] -= 1
            if not self._looked[field]:
                del self._looked[field]
        if query.keys is not None:
            for key in query.keys:
                _discard(self._by_key, key, number)
        elif query.equals:
            field, value = query.equals[0]
            _discard(self._by_value[field], value, number)
            if not self._by_value[field]:
                del self._by_value[field]
        else:
            self._whole.discard(number)

    def clear(self) -> None:
        """Let all go."""
        self.__init__()  # type: ignore[misc]

    def of(self, key: str, row: Fields | None) -> set[int]:
        """The queries a row belongs to; none when there is no row."""
        if row is None or not self._queries:
            return set()
        found = set(self._whole)
        for number in self._by_key.get(key, ()):
            if not self._queries[number].equals or self._queries[number].matches(key, row):
                found.add(number)
        for field, values in self._by_value.items():
            raw = row.get(field)
            wanted = canonical(raw) if raw is not None else "null"
            for number in values.get(wanted, ()) if wanted is not None else ():
                query = self._queries[number]
                if len(query.equals) == 1 or query.matches(key, row):
                    found.add(number)
        return found

    def match(self, key: str, old: Fields | None, new: Fields | None) -> Matches:
        """Say what a change of one row means to each query that it concerns."""
        if not self._queries:
            return Matches([], [], [])
        after = self.of(key, new)
        before = after if new is not None and self._unmoved(old, new) else self.of(key, old)
        if before == after:
            return Matches([], sorted(after), [])
        return Matches(sorted(after - before), sorted(after & before), sorted(before - after))

    def _unmoved(self, old: Fields | None, new: Fields) -> bool:
        """Whether no field that any query looks at has changed."""
        return old is not None and all(old.get(field) is new.get(field) for field in self._looked)


def _discard(index: dict[str, set[int]], name: str, number: int) -> None:
    held = index[name]
    held.discard(number)
    if not held:
        del index[name]
