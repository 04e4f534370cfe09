"""A query: which rows of a view to send. Equal queries are one.

A list of row keys, a filter on the fields of rows, both, or neither: the whole view.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from distributary.errors import BadQuery
from distributary.model.filter import (
    ALWAYS,
    Filter,
    Path,
    RowView,
    Test,
    Value,
    all_of,
    compiled,
    normalize,
    parse,
    timed,
)
from distributary.model.filter.batch_filter import BatchFilter
from distributary.model.filter.normal_form import AllOf, OneOf, dump, load, paths
from distributary.model.filter.scalars import number
from distributary.model.order import Order, load_order

MAX_KEYS = 10_000


@dataclass(frozen=True)
class Query:
    """Keys and a filter, both in normal form; created by ``parse``, ``of_keys`` and ``narrowed``.

    With an ``order`` only its first rows are sent; which rows match does not depend on that.
    """

    view: str
    keys: tuple[str, ...] | None = None
    filter: Filter | None = None
    order: Order | None = None

    @cached_property
    def text(self) -> str:
        """The normal form; equal queries have equal text, and ``load`` parses it."""
        body: dict[str, Any] = {"keys": list(self.keys)} if self.keys is not None else {}
        if self.filter is not None:
            body["where"] = dump(self.filter)
        if self.order is not None:
            body |= self.order.dump()
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False)

    @property
    def id(self) -> str:
        """The hash of view and normal form: long enough that nobody can find two queries with one id.

        Rows are sent by the id, so a query with the id of another one would receive its rows.
        """
        try:
            return hashlib.sha256(f"{self.view}\n{self.text}".encode()).hexdigest()[:32]
        except UnicodeEncodeError:  # keys and filters are checked when they are parsed
            raise BadQuery(f"the view {self.view!r} contains invalid Unicode (a lone surrogate)") from None

    @property
    def channel(self) -> str:
        """The name of the channel that all subscribers of this query share."""
        return f"q:{self.view}:{self.id}"

    @property
    def timed(self) -> bool:
        """Whether the rows depend on the time of evaluation."""
        return self.filter is not None and timed(self.filter)

    @property
    def terms(self) -> tuple[Filter, ...]:
        """The conditions that must all be true for a row."""
        if self.filter is None:
            return ()
        return self.filter.terms if isinstance(self.filter, AllOf) else (self.filter,)

    def looks_at(self, known: Iterable[Filter] = ()) -> frozenset[Path]:
        """Return the fields that rows are filtered or ordered by, except those of ``known`` conditions."""
        ordered = {by.path for by in self.order.by} if self.order is not None else set()
        return frozenset(ordered).union(*(paths(term) for term in self.terms if term not in known))

    @property
    def equality(self) -> tuple[tuple[Path, Value], ...]:
        """The fields that have the same value in all of its rows, with that value.

        Null, which may also be a missing field, is left out.
        """
        return tuple(
            (term.path, _value(term))
            for term in self.terms
            if isinstance(term, OneOf) and len(term.values) == 1 and term.kind in ("text", "number", "truth")
        )

    @classmethod
    def load(cls, view: str, text: str) -> Query:
        """Parse a normal form. Raises BadQuery for anything else."""
        body = json.loads(text)
        if body.keys() - {"keys", "where", "order", "limit"}:
            raise BadQuery(f"{text[:80]} is not the normal form of a query", hint="subscribe again")
        keys, where = body.get("keys"), body.get("where")
        return cls(
            view,
            tuple(keys) if keys is not None else None,
            load(where) if where is not None else None,
            load_order(body),
        )

    @classmethod
    def of_keys(cls, view: str, keys: Iterable[str]) -> Query:
        """Create a query for rows by key."""
        wanted = tuple(sorted(set(keys)))
        if not wanted:
            raise BadQuery("a list of keys must contain at least one key")
        if len(wanted) > MAX_KEYS:
            raise BadQuery(f"{len(wanted)} keys are too many", hint=f"the limit is {MAX_KEYS}")
        for key in wanted:
            if not isinstance(key, str):
                raise BadQuery(f"a row key must be a string, not {key!r}")
            if not key.isascii() and any("\ud800" <= char <= "\udfff" for char in key):
                raise BadQuery(f"the key {key!r} contains invalid Unicode (a lone surrogate)")
        return cls(view, wanted)

    @classmethod
    def parse(cls, view: str, where: str | None) -> Query:
        """Create a query by a filter, or for all rows. Raises BadQuery, which names the character."""
        return cls(view).narrowed(where or "")

    def narrowed(self, where: str) -> Query:
        """Return this query, restricted by another filter. Raises BadQuery, which names the character."""
        if not where.strip():
            return self
        terms = [normalize(parse(where))]
        if self.filter is not None:
            terms.append(self.filter)
        both = all_of(terms)
        return replace(self, filter=None if both == ALWAYS else both)

    def ordered(self, order: Order | None) -> Query:
        """Return this query with an order; None: without one."""
        return replace(self, order=order)

    def matches(self, key: str, row: Mapping[str, msgspec.Raw], now_ms: int = 0) -> bool:
        """Return whether a row matches this query at a time. Indexes must agree with it."""
        if self.keys is not None and key not in self._keys:
            return False
        return self.filter is None or self._test(RowView(row, now_ms))

    def match_rows(self, rows: Sequence[bytes], now_ms: int = 0) -> Sequence[bool]:
        """Return for each row (as JSON) whether it matches the filter; keys are not checked."""
        return [True] * len(rows) if self.filter is None else self._batch_filter.match_rows(rows, now_ms)

    @cached_property
    def _batch_filter(self) -> BatchFilter:
        assert self.filter is not None
        return BatchFilter(self.filter)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(self.keys or ())

    @cached_property
    def _test(self) -> Test:
        assert self.filter is not None
        return compiled(self.filter)


def _value(term: OneOf) -> Value:
    value = term.values[0]
    if isinstance(value, bool):
        return "true" if value else "false"
    return "s" + value if isinstance(value, str) else "n" + number(str(value))
