"""The first n rows, compared with sorting everything, for any subscriber that applies its changes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.publisher.hub.histories import Client, History, Rows, histories, text

from distributary.model.order import By, Order, parse_order
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.materialized_query import MaterializedQuery
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.top_n import TopQueue

ORDERS = st.builds(
    Order,
    st.lists(st.builds(By, st.sampled_from([("n",), ("m",)]), st.booleans()), min_size=1, max_size=2).map(
        tuple
    ),
    st.integers(1, 4),
)


def first(order: Order, rows: Rows) -> Rows:
    """Sort everything."""
    ranked = sorted(text(rows), key=lambda pair: order.rank(*pair))
    return {key: rows[key] for key, _ in ranked[: order.limit]}


def kept_of(order: Order, rows: Rows) -> MaterializedQuery:
    materialized = MaterializedQuery(JoinBuffer("e", 100), 100, order)
    assert materialized.load(Snapshot("e", 100, text(rows)))
    return materialized


@settings(max_examples=150)
@given(histories(), ORDERS)
def test_every_change_equals_sorting_everything(history: History, order: Order) -> None:
    materialized = kept_of(order, history.states[0])
    client = Client(materialized.snapshot("e", 100).rows, 100)
    for pub, state in zip(history.publications, history.states[1:], strict=True):
        for step in materialized.apply([pub]):
            client.take([(step.seq, step.data)])
            assert step.seq == pub[0]
            assert len(client.rows) <= order.limit
        expected = first(order, state)
        assert client.rows == expected
        assert client.list == list(expected) == [key for key, _ in materialized.snapshot("e", pub[0]).rows]


@settings(max_examples=150)
@given(
    histories(),
    ORDERS,
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 400)), max_size=9),
)
def test_conflated_first_rows_end_right(
    history: History, order: Order, sends: list[tuple[int, int, int]]
) -> None:
    """Sends portions after some changes each, and everything at the end."""
    materialized = kept_of(order, history.states[0])
    assert materialized.top is not None
    client = Client(materialized.snapshot("e", 100).rows, 100)
    queue = TopQueue(materialized.top, materialized.rows)
    done = 0
    for count, most, room in [*sends, (len(history.publications), 1 << 20, 1 << 20)]:
        for step in materialized.apply(history.publications[done : done + count]):
            queue.add(step)
        done += count
        pubs = queue.take(1_000, most, room)
        assert len(pubs) <= most
        client.take(pubs)
        assert len(client.rows) <= order.limit
        if not queue.waiting:
            expected = first(order, history.states[min(done, len(history.publications))])
            assert (client.rows, client.list) == (expected, list(expected))
    assert not queue.waiting


def test_row_that_leaves_is_sent_before_the_one_that_replaces_it() -> None:
    materialized = kept_of(parse_order("n desc", 2), {"a": {"n": 3}, "b": {"n": 2}, "c": {"n": 1}})
    change = b'{"op":"change","key":"%b","time":7,"changed":{"n":%d}}'
    result = materialized.apply([(101, change % (b"a", 0))])
    assert [step.data for step in result] == [
        b'{"op":"remove","key":"a","time":7}',
        b'{"op":"add","key":"c","time":7,"row":{"n": 1},"at":1}',
    ]
    result = materialized.apply([(102, change % (b"c", 5))])
    assert [step.data for step in result] == [change[:-1] % (b"c", 5) + b',"at":0}']
    assert materialized.apply([(103, change % (b"a", 1))]) == []


def test_row_that_keeps_its_rank_is_not_removed() -> None:
    materialized = kept_of(parse_order("n", 3), {"a": {"n": 1}, "b": {"n": 5}, "c": {"n": 9}})
    assert materialized.top is not None
    queue = TopQueue(materialized.top, materialized.rows)
    for step in materialized.apply([(101, b'{"op":"change","key":"b","time":7,"changed":{"n":6}}')]):
        queue.add(step)
    assert queue.take(101, 9, 999) == [(101, b'{"op":"add","key":"b","time":7,"row":{"n":6},"at":1}')]


def test_rows_move_past_an_unchanged_row() -> None:
    materialized = kept_of(parse_order("n", 3), {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}})
    assert materialized.top is not None
    client, queue = (
        Client(materialized.snapshot("e", 100).rows, 100),
        TopQueue(materialized.top, materialized.rows),
    )
    change = b'{"op":"change","key":"%b","time":7,"changed":{"n":%d}}'
    for step in materialized.apply([(101, change % (b"a", 4)), (102, change % (b"b", 5))]):
        queue.add(step)
    client.take(queue.take(102, 9, 999))
    assert client.list == ["c", "a", "b"]
