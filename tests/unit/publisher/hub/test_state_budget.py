"""Turns to be sent a state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.codec import codes
from distributary.publisher.codec.codes import Refused
from distributary.publisher.hub import state_budget
from distributary.publisher.hub.state_budget import MAX_UNKNOWN, SMALL, StateBudget, Turn

MB = 1_000_000


async def waiting(budget: StateBudget, size: int | None) -> asyncio.Task[Turn]:
    """A join that waits for its turn, or has it."""
    task = asyncio.create_task(budget.turn(lambda: size))
    await settled()
    return task


async def settled() -> None:
    """Let all tasks run that can."""
    for _ in range(6):
        await asyncio.sleep(0)


async def test_joins_without_room_wait_in_order() -> None:
    budget = StateBudget(10 * MB)
    first, second = await budget.turn(lambda: 6 * MB), await budget.turn(lambda: 4 * MB)
    large, little = await waiting(budget, 5 * MB), await waiting(budget, MB)
    assert (budget.used, budget.waiting) == (10 * MB, 2)
    second.end()
    second.end()
    await asyncio.sleep(0)
    assert not large.done()
    assert not little.done(), "nobody overtakes"
    first.resize(5 * MB)
    await asyncio.wait_for(asyncio.gather(large), 1)
    assert not little.done()
    first.end()
    await asyncio.wait_for(asyncio.gather(little), 1)
    assert budget.used == 6 * MB


async def test_small_states_neither_wait_nor_count() -> None:
    budget = StateBudget(10 * MB)
    await budget.turn(lambda: 10 * MB)
    queued = await waiting(budget, MB)
    await budget.turn(lambda: SMALL)
    assert budget.used == 10 * MB
    queued.cancel()


async def test_state_larger_than_the_budget_has_its_turn_alone() -> None:
    budget = StateBudget(MB)
    first = await budget.turn(lambda: MB)
    huge = await waiting(budget, 50 * MB)
    assert not huge.done()
    first.end()
    (await huge).end()
    assert budget.used == 0


async def test_few_states_of_unknown_size_are_under_way() -> None:
    budget = StateBudget(16 * MB)
    size: int | None = None
    turns = [await budget.turn(lambda: size) for _ in range(MAX_UNKNOWN)]
    more = [asyncio.create_task(budget.turn(lambda: size)) for _ in range(3)]
    await asyncio.sleep(0)
    assert budget.waiting == 3
    size = 10  # by now the first has been read: the others will be as small
    turns[0].resize(size)
    await asyncio.wait_for(asyncio.gather(*more), 1)
    assert budget.used == 0
    turns[1].resize(3 * MB)
    assert budget.used == 3 * MB


async def test_join_that_waits_for_a_size_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_budget, "TURN_TIMEOUT", 0.01)
    budget = StateBudget(16 * MB)
    turns = [await budget.turn(lambda: None) for _ in range(MAX_UNKNOWN)]
    more = asyncio.create_task(budget.turn(lambda: None))
    await asyncio.sleep(0.05)
    assert not more.done()
    turns[0].end()
    (await more).end()


async def test_no_state_of_unknown_size_starts_without_room() -> None:
    budget = StateBudget(MB)
    full = await budget.turn(lambda: MB)
    more = await waiting(budget, None)
    assert not more.done()
    full.end()
    (await more).end()
    assert budget.used == 0


async def test_join_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_budget, "TURN_TIMEOUT", 0.01)
    budget = StateBudget(MB)
    first = await budget.turn(lambda: MB)
    with pytest.raises(Refused) as caught:
        await budget.turn(lambda: MB)
    assert caught.value.refusal == codes.BUSY
    assert caught.value.refusal.temporary
    first.end()
    assert (budget.used, budget.waiting) == (0, 0)


async def test_cancelled_wait_lets_the_next_join_in() -> None:
    budget = StateBudget(10 * MB)
    await budget.turn(lambda: 6 * MB)
    large, fitting = await waiting(budget, 9 * MB), await waiting(budget, 2 * MB)
    large.cancel()
    await asyncio.wait_for(fitting, 1)
    assert budget.used == 8 * MB


async def test_join_cancelled_as_its_turn_comes_releases_it() -> None:
    budget = StateBudget(MB)
    first = await budget.turn(lambda: MB)
    queued = await waiting(budget, MB)
    first.end()
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    assert (budget.used, budget.waiting) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=60))
def test_any_order_of_turns_ends_with_nothing_used(steps: list[tuple[int, int]]) -> None:
    async def scenario() -> None:
        budget = StateBudget(20 * SMALL)
        tasks: list[asyncio.Task[Any]] = []
        turns: list[Turn] = []
        for what, number in steps:
            if what <= 2:
                size = None if what == 2 else number * SMALL
                tasks.append(await waiting(budget, size))
            elif what == 3 and tasks:
                tasks.pop(number % len(tasks)).cancel()
            elif turns and what == 4:
                turns.pop(number % len(turns)).end()
            elif turns:
                turns[number % len(turns)].resize(number * SMALL)
            await settled()
            turns += [task.result() for task in tasks if task.done() and not task.cancelled()]
            tasks = [task for task in tasks if not task.done()]
            assert budget.used == sum(turn._size or 0 for turn in turns)
            assert not budget.waiting or turns
        while turns or tasks:
            assert turns, "somebody waits though nothing is under way"
            turns.pop().end()
            await settled()
            turns += [task.result() for task in tasks if task.done()]
            tasks = [task for task in tasks if not task.done()]
        assert (budget.used, budget.unknown, budget.waiting) == (0, 0, 0)

    asyncio.run(scenario())
