from __future__ import annotations

import asyncio
import gc
import time
import warnings

import pytest

from distributary.auth.metering import ROW, charge, charge_rows, measured, measured_task, metered


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_costs_are_charged_to_the_user_of_the_block() -> None:
    ann: list[float] = []
    bob: list[float] = []
    charge(1)  # nobody pays
    with metered(ann.append):
        charge_rows(10)
        later = asyncio.create_task(_charge_soon())
        with metered(bob.append):
            charge(5)
        charge(0)
    await later
    charge(7)
    assert (ann, bob) == ([10 * ROW, 3], [5])


async def _charge_soon() -> None:
    await asyncio.sleep(0)
    charge(3)


async def test_task_is_charged_for_its_own_steps_only() -> None:
    paid: list[float] = []

    async def work() -> str:
        burn(0.02)
        await asyncio.sleep(0.01)  # another task has the loop meanwhile
        burn(0.02)
        return "done"

    async def other() -> None:
        burn(0.2)

    with metered(paid.append):
        task = asyncio.create_task(measured(work()))
    await asyncio.gather(task, other())
    assert task.result() == "done"
    assert 0.04 <= sum(paid) < 0.1


async def test_failed_work_is_charged() -> None:
    paid: list[float] = []

    async def work() -> None:
        burn(0.01)
        raise KeyError("x")

    with metered(paid.append), pytest.raises(KeyError):
        await measured(work())
    assert sum(paid) >= 0.01


async def test_cancellation_reaches_the_work_which_may_clean_up() -> None:
    heard: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            heard.append("cleaned up")

    with metered(lambda _: None):
        task = asyncio.create_task(measured(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == ["cleaned up"]


async def test_timeouts_hold_within_measured_work() -> None:
    async def work() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    with metered(lambda _: None), pytest.raises(TimeoutError):
        await measured(work())


async def test_nothing_is_measured_outside_of_a_metered_block() -> None:
    assert await measured(asyncio.sleep(0, "x")) == "x"


async def test_task_cancelled_before_its_start_closes_its_coroutine() -> None:
    async def work() -> None:
        raise AssertionError("it was cancelled")

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        task = measured_task(work())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        del task
        gc.collect()
    assert [str(one.message) for one in found] == []
