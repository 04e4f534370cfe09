from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support.clock import LIMIT

from distributary.auth.reservations import Reservation, Reservations
from distributary.errors import LimitExceeded, StoreUnavailable
from distributary.store.memory_store import MemoryStore


class Flaky:
    """A store in memory that can go away."""

    def __init__(self) -> None:
        self.down = False
        self.inner = MemoryStore().reader

    async def reserve(self, what: str, holder: str, change: int, limit: int | None, ttl_ms: int) -> bool:
        if self.down:
            raise RedisConnectionError
        return await self.inner.reserve(what, holder, change, limit, ttl_ms)

    async def renew_reservations(self, holder: str, amounts: Mapping[str, int], ttl_ms: int) -> None:
        if self.down:
            raise RedisConnectionError
        await self.inner.renew_reservations(holder, amounts, ttl_ms)

    def together(self, name: str) -> int:
        return sum(amount for amount, _ in self.inner._state.reserved.get(name, {}).values())


def share(name: str, amount: int = 1, limit: int | None = 3) -> Reservation:
    return Reservation(name, amount, limit, f"{limit} of {name}")


async def until(condition: object) -> None:
    async with asyncio.timeout(5 * LIMIT):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.002)


async def test_two_processes_share_a_limit() -> None:
    store = Flaky()
    one, two = Reservations(store), Reservations(store)
    await one.take([share("q", 2)])
    await two.take([share("q")])
    for usage in (one, two):
        with pytest.raises(LimitExceeded, match="3 of q"):
            await usage.take([share("q")])
    assert (one.count_of("q"), two.count_of("q")) == (2, 1)


async def test_all_reservations_are_taken_or_none() -> None:
    store = Flaky()
    usage = Reservations(store)
    running = asyncio.create_task(usage.run())
    with pytest.raises(LimitExceeded, match="0 of b"):
        await usage.take([share("a"), share("b", limit=0), share("c")])
    assert len(usage) == 0
    await until(lambda: store.together("a") == 0)
    running.cancel()


async def test_released_reservation_is_available_to_others() -> None:
    store = Flaky()
    one, two = Reservations(store), Reservations(store)
    running = asyncio.create_task(one.run())
    async with one.holding([share("q", 3)]):
        with pytest.raises(LimitExceeded):
            await two.take([share("q")])
    await until(lambda: store.together("q") == 0)
    await two.take([share("q", 3)])
    running.cancel()


async def test_reservations_are_renewed_until_their_process_dies() -> None:
    store = Flaky()
    alive, dead = Reservations(store, ttl=0.15), Reservations(store, ttl=0.15)
    running = asyncio.create_task(alive.run())
    await alive.take([share("q", 2)])
    await dead.take([share("r", 3)])

    async def free(name: str, amount: int) -> bool:
        other = Reservations(store, ttl=60)
        try:
            await other.take([share(name, amount)])
        except LimitExceeded:
            return False
        return True

    async with asyncio.timeout(5 * LIMIT):
        while not await free("r", 3):
            await asyncio.sleep(0.01)
    assert not await free("q", 2), "longer than its time, and still held"
    running.cancel()


async def test_reservations_are_corrected_after_the_store_was_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Flaky()
    usage = Reservations(store, ttl=0.1)
    running = asyncio.create_task(usage.run())
    await usage.take([share("q", 2)])
    store.down = True
    with pytest.raises(StoreUnavailable):
        await usage.take([share("q")])
    usage.release([share("q")])
    await until(lambda: "cannot store what users have reserved" in caplog.text)
    store.down = False
    await until(lambda: store.together("q") == 1)
    assert usage.count_of("q") == 1
    running.cancel()


async def test_cancellation_during_a_release_is_not_lost() -> None:
    usage = Reservations(Flaky())
    running = asyncio.create_task(usage.run())
    await usage.take([share("q")])
    await asyncio.sleep(0)
    usage.release([share("q")])
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=5 * LIMIT)
    assert done == {running}
