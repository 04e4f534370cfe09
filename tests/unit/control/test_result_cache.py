from __future__ import annotations

import json
import random

import pytest
from tests.support.fake_view import VIEW, FakeView

from distributary.control.result_cache import RESULT_BYTES, Result, Results, tag_of
from distributary.model.build import Build
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.store.build_scan import belongs
from distributary.store.consistent_read import QueryRows, read_unregistered
from distributary.store.store_types import Row

BUILD = Build(VIEW, "b1")


def state(seq: int, size: int = 100, **rows: int) -> QueryRows:
    return QueryRows("e", seq, {key: Row(at, 0, 0, b"{}") for key, at in rows.items()}, size)


def result(found: QueryRows, where: str | None = None, time: int = 5) -> Result:
    query = Query.parse(VIEW, where)
    return Result(tag_of(query, found), query, BUILD, found, time)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("seed", range(20))
async def test_the_same_tag_means_the_same_rows_and_the_other_way_round(seed: int) -> None:
    chance = random.Random(seed)
    fake_view, query = FakeView(), Query.parse(VIEW, "s = 'f'")
    seen: dict[str, str] = {}
    last = ""
    for _ in range(200):
        key = f"k{chance.randrange(6)}"
        gone = key in fake_view.rows() and chance.random() < 0.4
        fake_view.put((key, None if gone else {"s": chance.choice("fg"), "n": chance.randrange(3)}))
        found = await read_unregistered(fake_view.reader, fake_view.build, query, max_bytes=1 << 30)
        now = {k: r for k, r in fake_view.rows().items() if belongs(query, k, json.dumps(r).encode())}
        text = json.dumps(now, sort_keys=True)
        tag = tag_of(query, found)
        assert seen.setdefault(tag, text) == text
        # What did not concern the query does not change its tag.
        assert tag == last or text != seen.get(last) or key in now
        last = tag


def test_rows_of_a_timed_query_go_and_come_without_a_change() -> None:
    query = Query.parse(VIEW, "t > now()")
    assert query.timed
    one, other = state(9, a=1, c=3), state(9, b=2, c=3)
    assert tag_of(query, one) != tag_of(query, other)
    results = Results(10_000)
    first = results.add(Result(tag_of(query, one), query, BUILD, one, 5))
    assert results.add(Result(tag_of(query, one), query, BUILD, one, 8)) is first
    assert (first.time, first.changed) == (5, 8)


def test_tag_differs_by_query_and_epoch() -> None:
    found = state(3, a=1)
    tags = {tag_of(Query.parse(VIEW, where), found) for where in (None, "a = 1")}
    tags |= {tag_of(Query("other"), found), tag_of(Query(VIEW), QueryRows("f", 3, found.rows, 100))}
    assert len(tags) == 4


def test_the_same_rows_again_keep_their_position_and_time() -> None:
    results = Results(10_000)
    first = results.add(result(state(3, a=1, b=2), time=5))
    again = results.add(result(state(9, a=1, b=2), time=8))
    assert again is first
    assert (first.position, first.known, first.time) == (Position("e", 3), Position("e", 9), 5)
    assert first.changed == 8
    assert results.newest(BUILD, first.query) is first
    # One that was read earlier and comes later does not take it back.
    assert results.add(result(state(4, a=1, b=2))).known == Position("e", 9)
    assert first.changed == 8


def test_rows_come_in_order_of_their_keys() -> None:
    found = result(state(3, b=1, c=2, a=3))
    assert [key for key, _ in found.rows()] == ["a", "b", "c"]
    assert [key for key, _ in found.rows(1, 1)] == ["b"]
    assert found.rows(3, 5) == []


def test_least_recently_used_result_is_evicted_first() -> None:
    cost = 100 + RESULT_BYTES
    results = Results(cost * 3)
    one, two, three = (results.add(result(state(n, a=n))) for n in (1, 2, 3))
    assert results.get(one.tag) is one
    four = results.add(result(state(4, a=4)))
    assert [results.get(found.tag) for found in (one, two, three, four)] == [one, None, three, four]
    assert results.size == cost * 3


def test_unused_result_is_evicted() -> None:
    clock = Clock()
    results = Results(1 << 20, keep=60, clock=clock)
    one = results.add(result(state(1, a=1)))
    clock.now = 50
    assert results.get(one.tag) is one
    clock.now = 109
    assert results.newest(BUILD, one.query) is one
    clock.now = 169.5
    assert results.get(one.tag) is None
    assert results.newest(BUILD, one.query) is None
    assert results.size == 0


def test_query_has_one_lock_while_it_is_held() -> None:
    results = Results(1000)
    lock = results.lock(Query(VIEW))
    assert results.lock(Query(VIEW)) is lock
    assert results.lock(Query("other")) is not lock
    del lock
    assert not results._locks
