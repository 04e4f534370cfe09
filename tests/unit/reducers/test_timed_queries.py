"""Whatever rows and times there are, no row that a timed query changes its mind about is overlooked."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distributary.model.query import Query
from distributary.reducers.row_json import Fields, read_object
from distributary.reducers.timed_queries import TimedQueries


def fields(row: dict[str, Any]) -> Fields:
    return read_object(json.dumps(row).encode())


filters = st.sampled_from(
    [
        "t < now()",
        "t <= now() + 5ms",
        "t > now() - 3ms and n = 1",
        "t between now() - 4ms and now() + 4ms",
        "not t = now()",
        "u.at >= now() or t < now() - 1ms",
        "t != now() + 2ms",
    ]
)
times = st.integers(0, 30) | st.sampled_from([2.5, 7.25, "1970-01-01T00:00:00.009Z", None, "no time", True])
rows = st.fixed_dictionaries(
    {}, optional={"t": times, "u": st.fixed_dictionaries({"at": times}), "n": st.integers(0, 1)}
)


@given(
    st.lists(filters, min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from("abcd"), st.none() | rows), max_size=12),
    st.lists(st.integers(0, 40), min_size=2, max_size=6),
    st.integers(1, 3),
)
def test_every_row_is_due_when_a_query_changes_its_result(
    texts: list[str], writes: list[tuple[str, dict[str, Any] | None]], stops: list[int], limit: int
) -> None:
    timed = TimedQueries()
    queries = {n: Query.parse("v", text) for n, text in enumerate(texts)}
    for number, query in queries.items():
        timed.add(number, query)
    rows_now: dict[str, Fields] = {}
    for key, row in writes:
        if row is None:
            rows_now.pop(key, None)
        else:
            rows_now[key] = fields(row)
        timed.update(key, rows_now.get(key))
    clock = -5
    for stop in sorted(stops):
        while clock < stop:
            keys, reached = timed.due(clock, stop, limit)
            assert clock < reached <= stop
            for key, row in rows_now.items():
                for query in queries.values():
                    if query.matches(key, row, clock) != query.matches(key, row, reached):
                        assert key in keys
            following = timed.next_due(clock)
            if keys:
                assert following is not None
                assert following <= reached
            clock = reached
    for number in queries:
        timed.remove(number)
    assert not timed
    assert len(timed) == 0


def test_query_on_a_new_field_requires_one_scan_of_all_rows() -> None:
    timed = TimedQueries()
    assert timed.add(1, Query.parse("v", "t < now()"))
    assert not timed.add(2, Query.parse("v", "t < now() + 1h"))
    assert timed.add(3, Query.parse("v", "u < now()"))
    assert not timed.add(4, Query.parse("v", "n = 1"))
    timed.update("a", fields({"t": 5, "u": 6}))
    assert len(timed) == 2
    timed.remove(3)
    assert len(timed) == 1
    timed.remove(1)
    timed.remove(2)
    timed.remove(2)
    assert not timed
