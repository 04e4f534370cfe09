"""The contract of limits that several processes share."""

from __future__ import annotations

import asyncio

from distributary.errors import LimitExceeded
from distributary.store.store_types import QueryLimits
from tests.contract.conftest import Faces
from tests.support.clock import LIMIT

TTL = 60_000


async def test_reservations_of_all_processes_stay_within_the_limit(store: Faces) -> None:
    reserve = store.reader.reserve
    assert await reserve("q", "one", 3, 5, TTL)
    assert await reserve("q", "two", 2, 5, TTL)
    for holder in ("one", "two", "three"):
        assert not await reserve("q", holder, 1, 5, TTL)
    assert await reserve("other", "one", 5, 5, TTL), "each name has its own count"
    assert await reserve("q", "one", -1, 5, TTL)
    assert await reserve("q", "three", 1, 5, TTL)
    assert not await reserve("q", "two", 1, 5, TTL)


async def test_release_is_never_refused(store: Faces) -> None:
    assert await store.reader.reserve("q", "one", 5, None, TTL)
    assert await store.reader.reserve("q", "one", -1, 2, TTL), "a limit that was lowered ends nothing"
    assert not await store.reader.reserve("q", "one", 1, 2, TTL)
    assert await store.reader.reserve("q", "one", -9, 2, TTL)
    assert await store.reader.reserve("q", "two", 2, 2, TTL), "less than nothing is nothing"


async def test_reservation_lapses_without_renewal(store: Faces) -> None:
    assert await store.reader.reserve("q", "dead", 5, 5, 50)
    async with asyncio.timeout(5 * LIMIT):
        while not await store.reader.reserve("q", "alive", 5, 5, TTL):
            await asyncio.sleep(0.01)


async def test_renewal_replaces_stored_reservations(store: Faces) -> None:
    assert await store.reader.reserve("q", "one", 9, 10, TTL)
    await store.reader.renew_reservations("one", {"q": 2, "r": 1, "gone": 0}, TTL)
    assert await store.reader.reserve("q", "two", 8, 10, TTL)
    assert not await store.reader.reserve("q", "two", 1, 10, TTL)
    assert not await store.reader.reserve("r", "two", 1, 1, TTL)


async def test_budget_allows_a_burst_and_then_its_rate(store: Faces) -> None:
    spend = store.reader.spend
    assert await spend("b", 60, rate=100, burst=100) == 0
    assert await spend("b", 40, rate=100, burst=100) == 0
    wait = await spend("b", 50, rate=100, burst=100)
    assert 0 < wait <= 0.5
    assert await spend("other", 100, rate=100, burst=100) == 0
    async with asyncio.timeout(5 * LIMIT):
        while await spend("b", 1, rate=100, burst=100):
            await asyncio.sleep(0.005)


async def test_cost_beyond_the_burst_is_refused(store: Faces) -> None:
    assert await store.reader.spend("b", 101, rate=100, burst=100) > 0
    assert await store.reader.spend("b", 100, rate=100, burst=100) == 0


async def register(store: Faces, n: int, caps: QueryLimits) -> bool:
    """Register the query number n; whether there was room for it."""
    try:
        await store.reader.register(
            "odds",
            query_id=f"id-{n}",
            text=f"text-{n}",
            subscription=f"sub-{n}",
            ttl_ms=TTL,
            begun=True,
            limits=caps,
        )
    except LimitExceeded:
        return False
    return True


async def test_register_refuses_queries_beyond_the_limit(store: Faces) -> None:
    store.writer.define("odds", "b1", '{"view":{}}')
    caps = QueryLimits(queries=3)
    assert [await register(store, n, caps) for n in range(5)] == [True, True, True, False, False]
    assert await register(store, 1, caps), "one that is known is no more"
    assert await store.reader.end("odds", "sub-0")
    assert await register(store, 4, caps)
    assert await register(store, 5, QueryLimits()), "0 is no limit"


async def test_expensive_queries_have_their_own_limit(store: Faces) -> None:
    store.writer.define("odds", "b1", '{"view":{}}')
    costly, cheap = QueryLimits(10, 2, True), QueryLimits(10, 2, False)
    assert [await register(store, n, costly) for n in range(4)] == [True, True, False, False]
    assert [await register(store, n, cheap) for n in range(4, 8)] == [True] * 4
    assert await register(store, 0, costly)
    assert await store.reader.end("odds", "sub-1")
    assert await register(store, 2, costly)
    store.writer.drop_view("odds")
    store.writer.define("odds", "b1", '{"view":{}}')
    assert await register(store, 9, costly), "a view that is made again has none"
