"""Conflation (R20): whatever is sent when, one ends at the newest rows, and can resume at any moment."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.publisher.hub.histories import Client, History, histories, text

from distributary.publisher.codec.publication import row_change
from distributary.publisher.hub.conflation import RowQueue
from distributary.publisher.hub.join_buffer import JoinBuffer
from distributary.publisher.hub.materialized_query import MaterializedQuery
from distributary.publisher.hub.snapshot import Snapshot

SENDS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 300)), max_size=25)


def begin(history: History) -> tuple[MaterializedQuery, Client]:
    materialized = MaterializedQuery(JoinBuffer("e", 100), 100)
    rows = text(history.states[0])
    assert materialized.load(Snapshot("e", 100, rows))
    return materialized, Client(rows, 100)


@settings(max_examples=200)
@given(histories(), SENDS)
def test_rows_are_right_after_every_send_that_empties_the_queue(
    history: History, sends: list[tuple[int, int, int]]
) -> None:
    materialized, client = begin(history)
    queue = RowQueue(materialized.rows)
    done = result = 0
    for count, most, room in [*sends, (len(history.publications), 1 << 20, 1 << 20)]:
        steps = materialized.apply(history.publications[done : done + count])
        for step in steps:
            queue.add(step)
        done = min(len(history.publications), done + count)
        seq = history.publications[done - 1][0] if done else 100
        pubs = queue.take(seq, most, room)
        positions = [client.position, *(n for n, _ in pubs)]
        assert sorted(set(positions)) == positions, "positions grow"
        assert all(n <= seq for n in positions)
        assert len(pubs) <= most
        assert len(pubs) <= 1 or sum(len(data) for _, data in pubs) <= room
        client.take(pubs)
        result += len(pubs)
        if not queue.waiting:
            assert client.rows == history.states[done]
    assert not queue.waiting
    assert result + queue.conflated + queue.dropped == len(history.publications)


@settings(max_examples=250)
@given(histories(), SENDS, st.integers(0, 30), st.integers(0, 30))
def test_resume_from_any_sent_position_ends_with_the_right_rows(
    history: History, sends: list[tuple[int, int, int]], lost: int, more: int
) -> None:
    """The connection breaks after ``lost`` publications; the subscriber reconnects at any later time.

    It comes to a hub that may be behind the one it left, and so has seen rows that are new there.
    """
    materialized, client = begin(history)
    queue = RowQueue(materialized.rows)
    done = 0
    for count, most, room in sends:
        for step in materialized.apply(history.publications[done : done + count]):
            queue.add(step)
        done = min(len(history.publications), done + count)
        pubs = queue.take(history.publications[done - 1][0] if done else 100, most, room)
        client.take(pubs[:lost])
        lost -= len(pubs)
        if lost <= 0:
            break
    # It may come back at a publisher that is behind the one that sent those rows, or ahead of it.
    there = more % (len(history.publications) + 1)
    again = RowQueue(materialized.rows, client.position)
    materialized.apply(history.publications[done:])
    for pub in history.publications[there:]:
        again.add(row_change(pub))
    missed = [row_change(pub) for pub in history.publications[:there] if pub[0] > client.position]
    again.prepend_missed(missed, history.publications[done - 1][0] if done else 100)
    pubs = again.take(1_000_000, 1 << 20, 1 << 20)
    assert all(n > client.position for n, _ in pubs)
    client.take(pubs)
    assert client.rows == history.states[-1]


def test_row_that_came_and_went_is_not_sent() -> None:
    rows = {"a": b"{}"}
    queue = RowQueue(rows)
    for seq, op, key in ((1, "add", "b"), (2, "remove", "b"), (3, "change", "a"), (4, "remove", "a")):
        queue.add(row_change((seq, b'{"op":"%b","key":"%b","time":9}' % (op.encode(), key.encode()))))
    rows.clear()
    assert queue.take(4, 9, 999) == [(4, b'{"op":"remove","key":"a","time":9}')]
    assert (queue.conflated, queue.dropped, queue.waiting) == (2, 1, 0)


def test_no_row_waits_behind_one_that_changes_all_the_time() -> None:
    rows = {"a": b"{}", "b": b"{}"}
    queue = RowQueue(rows)
    sent = []
    for seq in range(1, 20, 2):
        for n, key in ((seq, b"a"), (seq + 1, b"b")):
            queue.add(row_change((n, b'{"op":"change","key":"%b","time":9,"changed":{}}' % key)))
        sent += [row_change(pub).key for pub in queue.take(seq + 1, 1, 999)]
    assert sent == ["a", "b"] * 5
