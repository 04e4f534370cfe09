"""The index must agree with the reference, ``Query.matches``, for any queries and any change."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distributary.model.query import Query
from distributary.reduce.match import QueryIndex
from distributary.reduce.rows import Fields, read_object

literals = st.sampled_from(["'x'", "'y'", "1", "1.0", "2", "true", "null"])
conditions = st.dictionaries(st.sampled_from("abc"), literals, min_size=1, max_size=3)
filters = conditions.map(lambda found: Query.parse("v", " and ".join(f"{f} = {v}" for f, v in found.items())))
by_keys = st.lists(st.sampled_from("klm"), min_size=1, max_size=2).map(lambda keys: Query.of_keys("v", keys))
queries = st.lists(filters | by_keys | st.just(Query("v")), max_size=12)
rows = st.none() | st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from(["x", "y", 1, 1.0, 2, True, None, [1]]), max_size=4
)


def fields(row: dict[str, Any] | None) -> Fields | None:
    return None if row is None else read_object(json.dumps(row).encode())


@given(queries, st.sampled_from("klmn"), rows, rows)
def test_the_index_agrees_with_the_reference(
    asked: list[Query], key: str, old: dict[str, Any] | None, new: dict[str, Any] | None
) -> None:
    index = QueryIndex()
    for number, query in enumerate(asked):
        index.add(number, query)
    before, after = fields(old), fields(new)
    was = {n for n, q in enumerate(asked) if before is not None and q.matches(key, before)}
    now = {n for n, q in enumerate(asked) if after is not None and q.matches(key, after)}
    found = index.match(key, before, after)
    assert found == (sorted(now - was), sorted(now & was), sorted(was - now))


@given(queries, st.data())
def test_queries_that_go_leave_nothing(asked: list[Query], data: st.DataObject) -> None:
    index = QueryIndex()
    for number, query in enumerate(asked):
        index.add(number, query)
        index.add(number, query)
    for number in data.draw(st.permutations(range(len(asked)))):
        index.remove(number)
        index.remove(number)
    assert index.sizes() == {"queries": 0, "keys": 0, "values": 0}
    assert vars(index) == vars(QueryIndex())


def test_a_row_whose_values_keep_their_identity_is_looked_up_once() -> None:
    index = QueryIndex()
    index.add(1, Query.parse("v", "a = 1"))
    row = read_object(b'{"a":1,"b":1}')
    moved = dict(row) | read_object(b'{"b":2}')
    assert index.match("k", row, moved) == ([], [1], [])
