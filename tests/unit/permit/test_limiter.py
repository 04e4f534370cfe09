from __future__ import annotations

import pytest

from distributary.config import Config
from distributary.config.limits import Limits as Settings
from distributary.errors import LimitExceeded, TooManyRequests
from distributary.permit import OPEN, STACK, Grant, Limits, metering
from distributary.permit.limiter import Limiter
from distributary.store.memory import MemoryStore

ANN = Grant("ann")


def limiter(**settings: float) -> Limiter:
    return Limiter(Config(limits=Settings(**settings)), MemoryStore().reader, patience=0)  # type: ignore[arg-type]


async def count_queries(one: Limiter, grant: Grant, *, expensive: bool = False) -> int:
    """How many queries one gets of 100."""
    for n in range(100):
        try:
            await one.usage.take(one.query(grant, expensive=expensive))
        except LimitExceeded:
            return n
    return 100


async def test_queries_of_one_user_are_bounded_by_the_configuration_or_the_token() -> None:
    assert await count_queries(limiter(queries_per_user=7), ANN) == 7
    assert await count_queries(limiter(queries_per_user=7), Grant("ann", limits=Limits(queries=3))) == 3
    assert await count_queries(limiter(queries_per_user=7), Grant("ann", limits=Limits(queries=0))) == 0
    assert await count_queries(limiter(queries_per_user=0), ANN) == 100


async def test_query_without_an_index_costs_more() -> None:
    one = limiter(queries_per_user=10, expensive_query=4)
    assert await count_queries(one, ANN, expensive=True) == 2
    assert await count_queries(one, ANN) == 2, "what is left"


async def test_callers_without_a_user_and_the_stack_itself_are_not_counted() -> None:
    one = limiter(queries_per_user=1, connections=1, connections_per_user=1, requests_per_user=1)
    for grant in (OPEN, STACK):
        assert await count_queries(one, grant) == 100
        assert one.connection(grant, "10.0.0.1", local=False) == []
        for _ in range(100):
            await one.request(grant, 1 << 30)


async def test_connections_are_bounded_by_user_by_address_and_in_all() -> None:
    async def connect(one: Limiter, user: str, address: str, *, local: bool = False) -> None:
        await one.usage.take(one.connection(Grant(user), address, local=local))

    one = limiter(connections=100, connections_per_user=2, connections_per_address=3)
    await connect(one, "ann", "10.0.0.1")
    await connect(one, "ann", "10.0.0.1")
    with pytest.raises(LimitExceeded, match="2 connections of one user"):
        await connect(one, "ann", "10.0.0.2")
    await connect(one, "bob", "10.0.0.1")
    with pytest.raises(LimitExceeded, match="3 connections of one address"):
        await connect(one, "cid", "10.0.0.1")
    one = limiter(connections=2, connections_per_address=1)
    await connect(one, "ann", "127.0.0.1", local=True)
    await connect(one, "bob", "127.0.0.1", local=True)
    with pytest.raises(LimitExceeded, match="2 connections of all"):
        await connect(one, "cid", "127.0.0.1", local=True)


async def test_requests_and_bytes_of_one_user_are_bounded() -> None:
    one = limiter(requests_per_user=1, bytes_per_user=100)
    for _ in range(10):
        await one.request(ANN)
    with pytest.raises(TooManyRequests, match="too many requests: 1 in a second"):
        await one.request(ANN)
    await one.request(Grant("bob"), 999)
    with pytest.raises(TooManyRequests, match="too many bytes: 100 in a second"):
        await one.request(Grant("bob"), 2)
    await one.request(Grant("cid", limits=Limits(requests=1000)))


async def test_processor_time_of_one_user_is_bounded() -> None:
    one = limiter(cpu_ms_per_user=10)
    await one.request(ANN)
    one.charge(ANN, 0.2)
    assert one.owes(ANN)
    with pytest.raises(TooManyRequests, match="too many milliseconds of processor time: 10 in a second"):
        await one.request(ANN)
    assert not one.owes(Grant("bob"))
    await one.request(Grant("bob"))
    generous = Grant("ann", limits=Limits(cpu_ms=100_000))
    assert not one.owes(generous), "a token may say otherwise"
    for grant in (OPEN, STACK):
        one.charge(grant, 100.0)
        assert not one.owes(grant)
        await one.request(grant)
    with one.metered(Grant("cid")):
        metering.charge(0.05)
    assert one.owes(Grant("cid"))
