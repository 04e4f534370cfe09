from __future__ import annotations

import pytest

from distributary.auth import OPEN, STACK, Grant, Limits, metering
from distributary.auth.limiter import Limiter
from distributary.config import Auth, Config
from distributary.config.sections import Limits as Settings
from distributary.errors import LimitExceeded, TooManyRequests
from distributary.store.memory_store import MemoryStore

ANN = Grant("ann")


def limiter(store: MemoryStore | None = None, **settings: float) -> Limiter:
    config = Config(limits=Settings(**settings), auth=Auth(hmac_secret="x" * 40))  # type: ignore[arg-type]
    return Limiter(config, (store or MemoryStore()).reader, max_wait=0)


async def count_queries(
    one: Limiter, grant: Grant, address: str = "127.0.0.1", *, expensive: bool = False
) -> int:
    """How many queries one gets of 100."""
    for n in range(100):
        try:
            await one.reservations.take(one.query_reservations(grant, address, expensive=expensive))
        except LimitExceeded:
            return n
    return 100


async def test_queries_of_one_user_are_bounded_by_the_configuration_or_the_token() -> None:
    assert await count_queries(limiter(queries_per_user=7), ANN) == 7
    assert await count_queries(limiter(queries_per_user=7), Grant("ann", limits=Limits(queries=3))) == 3
    assert await count_queries(limiter(queries_per_user=7), Grant("ann", limits=Limits(queries=0))) == 0
    assert await count_queries(limiter(queries_per_user=0), ANN) == 100


async def test_consumers_of_one_user_are_bounded_by_the_configuration_or_the_token() -> None:
    store = MemoryStore()
    for _ in range(3):  # gateways that share a store
        one = limiter(store, consumers_per_user=3)
        await one.reservations.take(one.consumer_reservations(ANN))
    with pytest.raises(LimitExceeded, match="3 consumer instances and topic streams of one user"):
        await one.reservations.take(one.consumer_reservations(ANN))
    await one.reservations.take(one.consumer_reservations(Grant("bob")))
    await one.reservations.take(one.consumer_reservations(Grant("ann", limits=Limits(consumers=4))))
    with pytest.raises(LimitExceeded, match="0 consumer instances"):
        await one.reservations.take(one.consumer_reservations(Grant("cid", limits=Limits(consumers=0))))


async def test_query_without_an_index_costs_more() -> None:
    one = limiter(queries_per_user=10, expensive_query_cost=4)
    assert await count_queries(one, ANN, expensive=True) == 2
    assert await count_queries(one, ANN) == 2, "what is left"


async def test_callers_without_a_user_and_the_stack_itself_are_not_counted() -> None:
    one = limiter(queries_per_user=1, connections=1, connections_per_user=1, requests_per_user=1)
    for grant in (OPEN, STACK):
        assert await count_queries(one, grant) == 100
        assert one.connection_reservations(grant, "10.0.0.1") == one.consumer_reservations(grant) == []
        for _ in range(100):
            await one.count_request(grant, 1 << 30)


async def test_connections_are_bounded_by_user_by_address_and_in_all() -> None:
    async def connect(one: Limiter, user: str, address: str) -> None:
        await one.reservations.take(one.connection_reservations(Grant(user), address))

    one = limiter(connections=100, connections_per_user=2, connections_per_address=3)
    await connect(one, "ann", "10.0.0.1")
    await connect(one, "ann", "10.0.0.1")
    with pytest.raises(LimitExceeded, match="2 connections of one user"):
        await connect(one, "ann", "10.0.0.2")
    await connect(one, "bob", "10.0.0.1")
    with pytest.raises(LimitExceeded, match="3 connections of one address"):
        await connect(one, "cid", "10.0.0.1")
    one = limiter(connections=2, connections_per_address=1)
    await connect(one, "ann", "127.0.0.1")
    await connect(one, "bob", "127.0.0.1")
    with pytest.raises(LimitExceeded, match="2 connections of all"):
        await connect(one, "cid", "127.0.0.1")


async def test_requests_and_bytes_of_one_user_are_bounded() -> None:
    one = limiter(requests_per_user=1, bytes_per_user=100)
    for _ in range(10):
        await one.count_request(ANN)
    with pytest.raises(TooManyRequests, match="too many requests: at most 1 per second"):
        await one.count_request(ANN)
    await one.count_request(Grant("bob"), 999)
    with pytest.raises(TooManyRequests, match="too many bytes: at most 100 per second"):
        await one.count_request(Grant("bob"), 2)
    await one.count_request(Grant("cid", limits=Limits(requests=1000)))


async def test_processor_time_of_one_user_is_bounded() -> None:
    one = limiter(cpu_ms_per_user=10)
    await one.count_request(ANN)
    one.charge(ANN, 0.2)
    assert one.is_in_debt(ANN)
    with pytest.raises(
        TooManyRequests, match="too many milliseconds of processor time: at most 10 per second"
    ):
        await one.count_request(ANN)
    assert not one.is_in_debt(Grant("bob"))
    await one.count_request(Grant("bob"))
    generous = Grant("ann", limits=Limits(cpu_ms=100_000))
    assert not one.is_in_debt(generous), "a token may say otherwise"
    for grant in (OPEN, STACK):
        one.charge(grant, 100.0)
        assert not one.is_in_debt(grant)
        await one.count_request(grant)
    with one.metered(Grant("cid")):
        metering.charge(0.05)
    assert one.is_in_debt(Grant("cid"))


async def test_queries_of_one_address_are_bounded() -> None:
    one = limiter(queries_per_user=5, queries_per_address=7)
    assert await count_queries(one, ANN, "10.0.0.1") == 5
    assert await count_queries(one, Grant("bob"), "10.0.0.1") == 2
    assert await count_queries(one, Grant("cid"), "10.0.0.2") == 5, "another address"
    assert await count_queries(one, Grant("dan"), "127.0.0.1") == 5, "this machine's own is not counted"


async def arrivals(one: Limiter, address: str, size: int = 0) -> int:
    """Count how many of 100 requests of an address are accepted."""
    for n in range(100):
        try:
            await one.count_arrival(address, size)
        except TooManyRequests:
            return n
    return 100


async def test_requests_and_bytes_of_one_address_are_bounded_whoever_sends_them() -> None:
    one = limiter(requests_per_address=2, bytes_per_address=30)
    assert await arrivals(one, "10.0.0.1") == 20
    assert await arrivals(one, "10.0.0.2", 100) == 3
    assert await arrivals(one, "127.0.0.1", 100) == 100, "this machine's own is not counted"
    with pytest.raises(TooManyRequests, match="too many requests of one address: at most 2 per second"):
        await one.count_arrival("10.0.0.1")


async def test_network_of_ipv6_is_one_address() -> None:
    one = limiter(requests_per_address=2, connections_per_address=1)
    assert await arrivals(one, "2001:db8::1") == 20
    assert await arrivals(one, "2001:db8::2") == 0
    assert await arrivals(one, "2001:db8:0:1::2") == 20
    await one.reservations.take(one.connection_reservations(ANN, "2001:db8::1"))
    with pytest.raises(LimitExceeded, match="1 connections of one address"):
        await one.reservations.take(one.connection_reservations(ANN, "2001:db8::2"))


async def test_requests_and_bytes_of_all_are_bounded_over_all_processes() -> None:
    store = MemoryStore()
    one, other = limiter(store, requests=3, bytes=50), limiter(store, requests=3, bytes=50)
    assert await arrivals(one, "127.0.0.1") + await arrivals(other, "10.0.0.1") == 30
    with pytest.raises(TooManyRequests, match="too many requests of all"):
        await other.count_arrival("10.0.0.2")
    store = MemoryStore()
    one = limiter(store, bytes=50)
    assert await arrivals(one, "127.0.0.1", 100) == 5


async def test_arrivals_are_not_counted_without_authorization_or_store() -> None:
    settings = Settings(requests_per_address=1, requests=1)
    one = Limiter(Config(limits=settings), MemoryStore().reader, max_wait=0)
    assert await arrivals(one, "10.0.0.1") == 100

    class Dead:
        async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
            raise ConnectionError

    config = Config(limits=settings, auth=Auth(hmac_secret="x" * 40))
    assert await arrivals(Limiter(config, Dead(), max_wait=0), "10.0.0.1") == 100  # type: ignore[arg-type]
