from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as RedisConnectionError

from distributary.auth import rate_budgets
from distributary.auth.rate_budgets import AT_ONCE, BURST, MAX_DEBT, REFUSALS, RateBudgets
from distributary.errors import StoreUnavailable, TooManyRequests
from distributary.store.memory_store import MemoryStore


class Clocked:
    """Processes that spend of the budgets of one store, under a clock that a test moves."""

    def __init__(self, processes: int = 1, max_wait: float = 0.0) -> None:
        self.now = 1000.0
        self.asked = 0
        self.down = False
        self.store = MemoryStore(clock=lambda: self.now)
        clock = time.monotonic if max_wait else lambda: self.now
        self.processes = [
            RateBudgets(self, "requests", "requests", max_wait=max_wait, clock=clock)
            for _ in range(processes)
        ]

    async def spend(self, what: str, cost: float, rate: float, burst: float) -> float:
        self.asked += 1
        if self.down:
            raise RedisConnectionError
        return await self.store.reader.spend(what, cost, rate, burst)

    async def count(self, user: str, rate: float, tries: int, process: int = 0) -> int:
        done = 0
        for _ in range(tries):
            try:
                await self.processes[process].spend(user, 1, rate)
                done += 1
            except TooManyRequests:
                pass
        return done


async def test_user_spends_its_burst_and_then_its_rate() -> None:
    case = Clocked()
    assert await case.count("ann", 100, 5000) == 100 * BURST
    assert await case.count("bob", 100, 10) == 10, "each user has its own"
    case.now += 1
    assert await case.count("ann", 100, 5000) == 100


async def test_error_contains_when_to_retry() -> None:
    case = Clocked()
    await case.count("ann", 2, 100)
    with pytest.raises(TooManyRequests) as caught:
        await case.processes[0].spend("ann", 1, 2)
    assert 0.4 < caught.value.after < 0.51
    assert caught.value.retry


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.sampled_from([1.0, 7.0, 100.0]))
async def test_processes_together_exceed_the_rate_by_one_batch_each(turns: list[int], rate: float) -> None:
    case = Clocked(3)
    done = sum([await case.count("ann", rate, 200, process) for process in turns])
    assert done <= rate * BURST
    if len(turns) > 10:
        assert done >= rate * BURST - 3 * max(1, rate * AT_ONCE) or done == 200 * len(turns)


async def test_most_requests_need_no_round_trip() -> None:
    case = Clocked()
    await case.count("ann", 1000, 1000)
    assert case.asked <= 10


async def test_cost_over_a_whole_budget_counts_as_a_whole_budget() -> None:
    case = Clocked()
    await case.processes[0].spend("ann", 1e12, 10)
    with pytest.raises(TooManyRequests):
        await case.processes[0].spend("ann", 1, 10)


async def test_rate_of_zero_is_no_limit() -> None:
    case = Clocked()
    assert await case.count("ann", 0, 1000) == 1000
    assert case.asked == 0


async def test_spending_fails_while_the_store_is_down() -> None:
    case = Clocked()
    case.down = True
    with pytest.raises(StoreUnavailable):
        await case.processes[0].spend("ann", 1, 10)


async def test_users_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_budgets, "MAX_USERS", 10)
    case = Clocked()
    for n in range(100):
        await case.processes[0].spend(str(n), 1, 100)
    assert len(case.processes[0]._accounts) == 10


async def test_request_over_the_budget_waits_for_its_turn() -> None:
    spending = RateBudgets(MemoryStore().reader, "requests", "requests")
    clock = asyncio.get_running_loop().time
    for _ in range(int(100 * BURST)):
        await spending.spend("ann", 1, 100)
    began = clock()
    await asyncio.gather(*(spending.spend("ann", 1, 100) for _ in range(20)))
    assert 0.15 <= clock() - began <= 0.9, "20 at 100 in a second"


async def test_waiting_requests_are_refused_late_without_round_trips() -> None:
    case = Clocked(max_wait=0.2)
    await case.processes[0].spend("ann", 10, 1)
    asked, began = case.asked, asyncio.get_running_loop().time()
    found = await asyncio.gather(
        *(case.processes[0].spend("ann", 1, 1) for _ in range(50)), return_exceptions=True
    )
    assert all(isinstance(one, TooManyRequests) for one in found)
    assert asyncio.get_running_loop().time() - began >= 0.2
    assert case.asked - asked <= 4, "only the first asks the store"


async def test_requests_wait_longer_if_many_wait() -> None:
    case = Clocked(max_wait=0.01)
    await case.processes[0].spend("ann", 10, 1)
    count = 3 * REFUSALS // 10
    began = asyncio.get_running_loop().time()
    await asyncio.gather(
        *(case.processes[0].spend("ann", 1, 1) for _ in range(count)), return_exceptions=True
    )
    assert asyncio.get_running_loop().time() - began >= (count - 1) / REFUSALS


async def test_next_request_pays_for_charged_costs() -> None:
    case = Clocked()
    spending = case.processes[0]
    await spending.spend("ann", 60, 10)
    spending.charge("ann", 40 + 49, 10)
    with pytest.raises(TooManyRequests):
        await spending.spend("ann", 1, 10)
    case.now += 4.9
    with pytest.raises(TooManyRequests):
        await spending.spend("ann", 1, 10)
    case.now += 0.2
    await spending.spend("ann", 1, 10)
    spending.charge("bob", 5, 0)
    await spending.spend("bob", 1, 0)


async def test_debt_is_bounded() -> None:
    case = Clocked()
    case.processes[0].charge("ann", 1e12, 10)
    case.now += MAX_DEBT
    for _ in range(100):  # each time as much as a whole budget is paid
        with contextlib.suppress(TooManyRequests):
            await case.processes[0].spend("ann", 1, 10)
            break
        case.now += BURST
    else:
        raise AssertionError("never served again")


async def test_debt_ends_when_it_is_paid() -> None:
    spending = RateBudgets(MemoryStore().reader, "cpu", "ms", burst=0.1)
    rate = 100.0
    spending.charge("ann", 5, rate)
    assert not spending.is_in_debt("ann", rate), "so little is no debt yet"
    spending.charge("ann", 35, rate)
    assert spending.is_in_debt("ann", rate)
    began = time.monotonic()
    await asyncio.gather(*(spending.wait_until_paid("ann", rate) for _ in range(20)))
    assert not spending.is_in_debt("ann", rate)
    assert 0.2 <= time.monotonic() - began <= 0.9, "40 at 100 in a second, of which 10 were there"
    assert not spending.is_in_debt("bob", rate)
