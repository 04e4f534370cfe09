"""A query: which rows of a view a subscriber wants. Equal queries are one.

A list of row keys, a filter over the rows' fields, both, or neither: the whole view.
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
    Row,
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

NOW_IS_SERVED = True
"""Whether a query may ask for ``now()``: only where reducers look at the clock, too."""


@dataclass(frozen=True)
class Query:
    """Keys and a filter, both in normal form; make one with ``parse``, ``of_keys`` and ``narrowed``.

    With an ``order`` only the first rows of it are wanted; which rows match does not depend on that.
    """

    view: str
    keys: tuple[str, ...] | None = None
    filter: Filter | None = None
    order: Order | None = None

    @cached_property
    def text(self) -> str:
        """The normal form; equal queries have equal text, and ``load`` reads it back."""
        body: dict[str, Any] = {"keys": list(self.keys)} if self.keys is not None else {}
        if self.filter is not None:
            body["where"] = dump(self.filter)
        if self.order is not None:
            body |= self.order.dump()
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False)

    @property
    def id(self) -> str:
        """The hash of view and normal form: long enough that nobody finds two queries with one id.

        Rows go by the id, so whoever could make a query with another's id would be given that one's rows.
        """
        try:
            return hashlib.sha256(f"{self.view}\n{self.text}".encode()).hexdigest()[:32]
        except UnicodeEncodeError:  # keys and filters are refused where they are read
            raise BadQuery(f"the view {self.view!r} has half a character in it (a lone surrogate)") from None

    @property
    def channel(self) -> str:
        """The name under which all who ask this query share its changes."""
        return f"q:{self.view}:{self.id}"

    @property
    def timed(self) -> bool:
        """Whether the rows depend on the time of asking."""
        return self.filter is not None and timed(self.filter)

    @property
    def terms(self) -> tuple[Filter, ...]:
        """The conditions that must all be true of a row."""
        if self.filter is None:
            return ()
        return self.filter.terms if isinstance(self.filter, AllOf) else (self.filter,)

    def looks_at(self, known: Iterable[Filter] = ()) -> frozenset[Path]:
        """List the fields that rows are filtered or ordered by, besides those of ``known`` conditions."""
        ordered = {by.path for by in self.order.by} if self.order is not None else set()
        return frozenset(ordered).union(*(paths(term) for term in self.terms if term not in known))

    @property
    def equality(self) -> tuple[tuple[Path, Value], ...]:
        """Fields that have one and the same value in all of its rows, with it.

        Null, which may also be missing, is not told.
        """
        return tuple(
            (term.path, _value(term))
            for term in self.terms
            if isinstance(term, OneOf) and len(term.values) == 1 and term.kind in ("text", "number", "truth")
        )

    @classmethod
    def load(cls, view: str, text: str) -> Query:
        """Read a normal form back. Raises BadQuery for what is none."""
        body = json.loads(text)
        if body.keys() - {"keys", "where", "order", "limit"}:
            raise BadQuery(f"{text[:80]} is not a query's normal form", hint="subscribe again")
        keys, where = body.get("keys"), body.get("where")
        return cls(
            view,
            tuple(keys) if keys is not None else None,
            load(where) if where is not None else None,
            load_order(body),
        )

    @classmethod
    def of_keys(cls, view: str, keys: Iterable[str]) -> Query:
        """Ask for rows by key."""
        wanted = tuple(sorted(set(keys)))
        if not wanted:
            raise BadQuery("a list of keys must hold at least one key")
        if len(wanted) > MAX_KEYS:
            raise BadQuery(f"{len(wanted)} keys are too many", hint=f"ask for at most {MAX_KEYS}")
        for key in wanted:
            if not isinstance(key, str):
                raise BadQuery(f"a row key is text, not {key!r}")
            if not key.isascii() and any("\ud800" <= char <= "\udfff" for char in key):
                raise BadQuery(f"the key {key!r} has half a character in it (a lone surrogate)")
        return cls(view, wanted)

    @classmethod
    def parse(cls, view: str, where: str | None) -> Query:
        """Ask for rows by a filter; without one, for all. Raises BadQuery, which names the character."""
        return cls(view).narrowed(where or "")

    def narrowed(self, where: str) -> Query:
        """Ask for those rows of this query that are in another filter too.

        Raises BadQuery, which names the character.
        """
        if not where.strip():
            return self
        terms = [normalize(parse(where, now=NOW_IS_SERVED))]
        if self.filter is not None:
            terms.append(self.filter)
        both = all_of(terms)
        return replace(self, filter=None if both == ALWAYS else both)

    def ordered(self, order: Order | None) -> Query:
        """Ask for the first rows of this query alone; None: for all of them."""
        return replace(self, order=order)

    def matches(self, key: str, row: Mapping[str, msgspec.Raw], now_ms: int = 0) -> bool:
        """Say whether a row belongs to this query at a time. Indexes must agree with it."""
        if self.keys is not None and key not in self._keys:
            return False
        return self.filter is None or self._test(Row(row, now_ms))

    def match_rows(self, rows: Sequence[bytes], now_ms: int = 0) -> Sequence[bool]:
        """Say of each of many rows (their JSON) whether it is in the filter; of keys nothing is said."""
        return [True] * len(rows) if self.filter is None else self._sieve.match_rows(rows, now_ms)

    @cached_property
    def _sieve(self) -> BatchFilter:
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
