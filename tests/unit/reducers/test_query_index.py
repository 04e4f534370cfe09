"""The index must agree with the reference for any queries and any change, and forget what goes."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.support.filter_reference import truth
from tests.support.sample_filters import NOW, fields, json_rows, rows, terms

from distributary.model.filter import ALWAYS, RowView, normalize
from distributary.model.filter.syntax_tree import Term
from distributary.model.query import Query
from distributary.reducers import query_index
from distributary.reducers.query_index import QueryIndex
from distributary.reducers.row_json import Fields, read_object

KEYS = "klm"
wanted = st.none() | st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True)
drawn = st.lists(st.tuples(wanted, st.none() | terms), max_size=8)
Drawn = list[tuple[list[str] | None, Term | None]]


def query(keys: list[str] | None, term: Term | None) -> Query:
    found = None if term is None else normalize(term)
    return Query("v", None if keys is None else tuple(sorted(keys)), None if found == ALWAYS else found)


def reference(drawn: Drawn, key: str, row: Fields | None) -> set[int]:
    if row is None:
        return set()
    return {
        number
        for number, (keys, term) in enumerate(drawn)
        if (keys is None or key in keys) and (term is None or truth(term, row, NOW) is True)
    }


def index_of(drawn: Drawn) -> QueryIndex:
    index = QueryIndex()
    for number, one in enumerate(drawn):
        index.add(number, query(*one))
    return index


@given(drawn, st.sampled_from("kln"), st.none() | rows, st.none() | rows, st.integers(1, 3))
def test_index_finds_the_same_queries_as_the_reference(
    drawn: Drawn, key: str, old: Fields | None, new: Fields | None, split: int
) -> None:
    query_index.SPLIT, before = split, query_index.SPLIT
    try:
        index = index_of(drawn)
    finally:
        query_index.SPLIT = before
    was, now = reference(drawn, key, old), reference(drawn, key, new)
    assert index.match(key, old, new, NOW) == (sorted(now - was), sorted(now & was), sorted(was - now))


@given(drawn, st.data(), st.integers(1, 3))
def test_removed_queries_leave_nothing_in_the_index(drawn: Drawn, data: st.DataObject, split: int) -> None:
    query_index.SPLIT, before = split, query_index.SPLIT
    try:
        index = index_of(drawn)
        gone: set[int] = set()
        for number in data.draw(st.permutations(range(len(drawn)))):
            index.add(number, query(*drawn[number]))
            index.remove(number)
            index.remove(number)
            gone.add(number)
            row = read_object(b'{"a":1,"b":"x"}')
            assert index.of("k", row, NOW) == reference(drawn, "k", row) - gone
    finally:
        query_index.SPLIT = before
    assert index.sizes() == QueryIndex().sizes()
    assert not any(index.sizes().values())
    assert not index._root
    assert not index._fields_read


def _many(count: int) -> list[Query]:
    """Queries of all kinds that share fields and values, so that buckets are split and runs are long."""
    chance = random.Random(7)
    forms = (
        lambda: f"a = {chance.randrange(20)} and b > {chance.randrange(50)}",
        lambda: f"a = {chance.randrange(5)} and b = 'x{chance.randrange(5)}' and c <= {chance.randrange(9)}",
        lambda: f"b between {(low := chance.randrange(50))} and {low + chance.choice([0, 1, 0.5, 7, 40])}",
        lambda: f"b < {chance.randrange(9)} or c in ({chance.randrange(9)}, {chance.randrange(9)})",
        lambda: f"c >= {chance.randrange(9)} and b != {chance.randrange(9)}",
        lambda: f"(a = {chance.randrange(9)} or c is null) and b like '%{chance.randrange(5)}'",
        lambda: f"b >= 'x{chance.randrange(5)}' and b < 'x{chance.randrange(9)}'",
    )
    return [Query.parse("v", chance.choice(forms)()) for _ in range(count)]


def test_index_finds_queries_that_share_their_steps() -> None:
    queries = _many(700)
    index = QueryIndex()
    for number, one in enumerate(queries):
        index.add(number, one)
    chance = random.Random(8)
    left = set(range(len(queries)))
    for step in range(300):
        b = chance.choice([chance.randrange(50), f"x{chance.randrange(9)}", 3.5, None])
        row = fields({"a": chance.randrange(20), "b": b, "c": chance.choice([None, chance.randrange(9)])})
        assert index.of("k", row) == {n for n in left if queries[n].matches("k", row)}
        for number in chance.sample(sorted(left), 2 if step < 290 else 0):
            index.remove(number)
            left.remove(number)
    for number in list(left):
        index.remove(number)
    assert not any(index.sizes().values())
    assert not index._root


def test_row_is_looked_up_once_when_no_queried_field_changed() -> None:
    index = QueryIndex()
    index.add(1, Query.parse("v", "a = 1"))
    looked_up: list[object] = []
    inner = index._of

    def watched(row: RowView) -> set[int]:
        looked_up.append(row)
        return inner(row)

    index._of = watched  # type: ignore[method-assign]
    row = read_object(b'{"a":1,"b":1}')
    assert index.match("k", row, dict(row) | read_object(b'{"b":2}')) == ([], [1], [])
    assert index.match("k", row, read_object(b'{"b":2,"a":1}')) == ([], [1], [])
    assert len(looked_up) == 2
    assert index.match("k", row, read_object(b'{"a":2}')) == ([], [], [1])
    assert len(looked_up) == 4


def test_match_without_queries_decodes_nothing() -> None:
    assert QueryIndex().match("k", None, {}) == ([], [], [])


@given(json_rows)
def test_match_decodes_only_fields_that_queries_read(row: dict[str, str]) -> None:
    index = QueryIndex()
    index.add(1, Query.parse("v", "a = 1 or b between 3 and 4"))

    class Watched(dict):  # type: ignore[type-arg]
        def get(self, name: str, default: object = None) -> object:
            assert name in ("a", "b")
            return super().get(name, default)

    raw = read_object(("{" + ",".join(f'"{k}":{v}' for k, v in row.items()) + "}").encode())
    index.of("k", Watched(raw))
