"""MaterializedQuery rows are the plain fold of the publications, wherever they began."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.publisher.hub.histories import History, histories, text, value

from distributary.publisher.codec.publication import row_change
from distributary.publisher.hub.join_buffer import BufferOverflow, JoinBuffer
from distributary.publisher.hub.materialized_query import MaterializedQuery, RowsDiverged, TooManyRows
from distributary.publisher.hub.snapshot import Snapshot


@given(histories(), st.integers(0, 25), st.integers(0, 25), st.integers(1, 5))
def test_rows_are_the_fold_of_all_publications(history: History, current: int, read: int, batch: int) -> None:
    """The hub buffers after some publications; the state is of ``read``, which may be ahead of the hub."""
    pubs, states = history
    current, read = current % (len(pubs) + 1), read % (len(pubs) + 1)
    at = [100, *(seq for seq, _ in pubs)]
    materialized = MaterializedQuery(JoinBuffer("e", at[current]), 100)
    before = max(current, min(read, current + batch))
    assert materialized.apply(pubs[current:before]) == []
    settled = materialized.load(Snapshot("e", at[read], text(states[read])))
    assert settled == (at[read] >= at[current]) == materialized.ready
    if not settled:
        return
    result = []
    for start in range(before, len(pubs), batch):
        part = pubs[start : start + batch]
        result += materialized.apply(part)
        assert value(materialized.rows) == states[max(read, min(len(pubs), start + batch))]
    assert value(materialized.rows) == states[-1]
    assert result == [row_change(pub) for pub in pubs[before:] if pub[0] > at[read]]
    assert value(dict(materialized.snapshot("e", at[-1]).rows)) == states[-1]
    assert materialized.snapshot("e", at[before]).seq == max(at[before], at[read])


def ready(rows: dict[str, object], most: int = 3) -> MaterializedQuery:
    materialized = MaterializedQuery(JoinBuffer("e", 1, max_bytes=100), most)
    assert materialized.load(Snapshot("e", 1, text(rows)))  # type: ignore[arg-type]
    return materialized


def test_numbers_keep_their_digits() -> None:
    materialized = ready({})
    materialized.apply([(2, b'{"op":"add","key":"a","time":1,"row":{"p":1.50,"n":9007199254740993}}')])
    materialized.apply([(3, b'{"op":"change","key":"a","time":1,"changed":{"q":2.0},"gone":["n"]}')])
    assert materialized.rows["a"] == b'{"p":1.50,"q":2.0}'


def test_too_many_rows_are_refused() -> None:
    rows: dict[str, object] = {"a": {}, "b": {}, "c": {}}
    materialized = ready(rows)
    with pytest.raises(TooManyRows):
        materialized.apply([(2, b'{"op":"add","key":"d","time":1,"row":{}}')])
    with pytest.raises(TooManyRows):
        ready(rows, most=2)


def test_change_of_an_unknown_row_and_overflow_are_refused() -> None:
    with pytest.raises(RowsDiverged):
        ready({}).apply([(2, b'{"op":"change","key":"a","time":1,"changed":{"q":2}}')])
    with pytest.raises(BufferOverflow):
        MaterializedQuery(JoinBuffer("e", 1, max_bytes=10), 3).apply(
            [(2, b'{"op":"remove","key":"a","time":1}')]
        )


def test_state_of_another_epoch_is_not_loaded() -> None:
    assert not MaterializedQuery(JoinBuffer("e", 1), 3).load(Snapshot("f", 2, []))
