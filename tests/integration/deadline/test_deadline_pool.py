"""Calls with a deadline: those that take too long are ended, and others continue."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from tests.integration.deadline import slow_functions
from tests.support.clock import LIMIT

from distributary.deadline import DeadlinePool
from distributary.errors import CheckFailed, ChecksBusy, CheckTooLong, GatewayError, TopicError


@pytest.fixture
async def pool() -> AsyncIterator[DeadlinePool]:
    pool = DeadlinePool(0.2)
    yield pool
    await pool.close()


async def test_call_returns_the_result_of_the_function(pool: DeadlinePool) -> None:
    for value in (None, 1, "ä", b"\xff", [1, [None]], {"a": 1.5}):
        assert await pool.run(slow_functions.echo, value, what="it") == value


async def test_calls_share_another_process(pool: DeadlinePool) -> None:
    found = [await pool.run(slow_functions.pid, what="it") for _ in range(3)]
    assert len(set(found)) == 1
    assert found[0] != os.getpid()


async def test_call_that_takes_too_long_is_ended_and_the_next_succeeds(pool: DeadlinePool) -> None:
    before = await pool.run(slow_functions.pid, what="it")
    with pytest.raises(CheckTooLong, match=r"the schema takes too long to check: more than 0\.2 s"):
        await pool.run(slow_functions.evil, what="the schema")
    assert not psutil.pid_exists(before)
    assert await pool.run(slow_functions.echo, 5, what="it") == 5


async def test_event_loop_runs_while_a_call_takes_long(pool: DeadlinePool) -> None:
    evil = asyncio.create_task(pool.run(slow_functions.evil, what="it"))
    turns = 0
    while not evil.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 20
    assert isinstance(evil.exception(), CheckTooLong)


async def test_owner_of_slow_calls_does_not_delay_others() -> None:
    pool = DeadlinePool(0.5)
    try:
        evil = [asyncio.create_task(pool.run(slow_functions.evil, what="it", owner="eve")) for _ in range(10)]
        for number in range(20):
            assert await pool.run(slow_functions.echo, number, what="it", owner="ann") == number
        assert sum(task.done() for task in evil) < 10
    finally:
        for task in evil:
            task.cancel()
        await asyncio.gather(*evil, return_exceptions=True)
        await pool.close()


async def test_calls_of_one_owner_end_in_order(pool: DeadlinePool) -> None:
    ended: list[int] = []

    async def call(number: int) -> None:
        await pool.run(slow_functions.echo, "x" * (100_000 if number == 0 else 1), what="it", owner="ann")
        ended.append(number)

    await asyncio.gather(*map(call, range(10)))
    assert ended == list(range(10))


async def test_owner_with_too_many_calls_is_rejected_and_others_are_not(pool: DeadlinePool) -> None:
    calls = [asyncio.create_task(pool.run(slow_functions.echo, 1, what="it", owner="eve")) for _ in range(20)]
    done = await asyncio.gather(
        *calls, pool.run(slow_functions.echo, 2, what="it", owner="ann"), return_exceptions=True
    )
    assert done[-1] == 2
    refused = [one for one in done if isinstance(one, ChecksBusy)]
    assert len(refused) == 4
    assert refused[0].retry
    assert await pool.run(slow_functions.echo, 1, what="it", owner="eve") == 1


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("value", ValueError, "it does not fit"),
        ("gateway", GatewayError, "it is rejected. send another"),
        ("topic", TopicError, "no topic. make one"),
        ("memory", CheckFailed, "too much memory"),
        ("crash", CheckFailed, "status -11"),
        ("other", CheckFailed, "KeyError: 'other'"),
    ],
)
async def test_error_of_the_function_is_raised(
    pool: DeadlinePool, kind: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        await pool.run(slow_functions.fail, kind, what="it")
    assert not isinstance(caught.value, CheckTooLong)
    assert getattr(caught.value, "error_code", 42203) == 42203
    assert await pool.run(slow_functions.echo, 1, what="it") == 1


async def test_function_may_print(pool: DeadlinePool) -> None:
    assert await pool.run(slow_functions.fail, "print", what="it") is None
    assert await pool.run(slow_functions.echo, 1, what="it") == 1


async def test_process_does_not_inherit_secrets(pool: DeadlinePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTRIBUTARY_AUTH_HMAC_SECRET", "secret")
    seen = await pool.run(slow_functions.environment, what="it")
    assert "secret" not in seen.values()


async def test_cancelled_call_ends_its_process(pool: DeadlinePool, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    call = asyncio.create_task(pool.run(slow_functions.write_pid_and_hang, str(path), what="it"))
    number = await _written(path)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert not psutil.pid_exists(number)
    assert await pool.run(slow_functions.echo, 1, what="it") == 1


async def test_close_ends_the_processes() -> None:
    pool = DeadlinePool(1.0)
    number = await pool.run(slow_functions.pid, what="it")
    await pool.close()
    assert not psutil.pid_exists(number)


@pytest.mark.parametrize("busy", [True, False])
async def test_process_does_not_outlive_a_killed_parent(tmp_path: Path, busy: bool) -> None:
    path = tmp_path / "pid"
    program = f"""
        import asyncio, sys
        from distributary.deadline import DeadlinePool
        from tests.integration.deadline import slow_functions

        async def main():
            pool = DeadlinePool(0.5)
            if {busy}:
                await pool.run(slow_functions.write_pid_and_hang, {str(path)!r}, what="it")
            found = await pool.run(slow_functions.pid, what="it")
            open({str(path)!r}, "w").write(f"{{found}}\\n")
            await asyncio.sleep(100)

        asyncio.run(main())
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        number = await _written(path)
    finally:
        parent.kill()
        parent.wait()
    end = time.monotonic() + 20 * LIMIT
    while psutil.pid_exists(number):
        assert time.monotonic() < end, "it lives on"
        await asyncio.sleep(0.01)


async def _written(path: Path) -> int:
    end = time.monotonic() + 20 * LIMIT
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    return int(path.read_text())
