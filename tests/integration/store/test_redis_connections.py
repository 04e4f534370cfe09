"""A cancellation that arrives together with the result, which asyncio.wait_for may swallow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection
from tests.support.clock import LIMIT
from tests.support.servers import StoreServer

from distributary.setup.store_server import bundled
from distributary.store.embedded_server import connect
from distributary.store.redis_reader import RedisReader

WAIT = 10 * LIMIT

Ask = Callable[[], Awaitable[object]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    binary = bundled()
    assert binary is not None
    found = StoreServer(binary, tmp_path)
    found.start()
    yield found
    found.kill()


class Canceller:
    """Cancels a task when its command was sent and its result has not been delivered yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.task: asyncio.Task[object] | None = None
        send = AbstractConnection._send_packed_command

        async def cancelling(connection: Any, command: Iterable[bytes]) -> None:
            await send(connection, command)
            if self.task is not None:
                self.task.cancel()
                self.task = None

        monkeypatch.setattr(AbstractConnection, "_send_packed_command", cancelling)


@asynccontextmanager
async def a_reader(server: StoreServer) -> AsyncIterator[Ask]:
    reader = RedisReader(server.url)
    try:
        yield reader.views
    finally:
        await reader.close()


@asynccontextmanager
async def a_client(server: StoreServer) -> AsyncIterator[Ask]:
    async with connect(server.url) as client:
        yield client.ping


@asynccontextmanager
async def a_follower(server: StoreServer) -> AsyncIterator[Ask]:
    reader = RedisReader(server.url)

    async def look() -> object:
        async with aclosing(reader.tail("none")) as events:
            return [event async for event in events]

    try:
        yield look
    finally:
        await reader.close()


@pytest.mark.parametrize("asking", [a_reader, a_client, a_follower])
@pytest.mark.timeout(60 * LIMIT)
async def test_loop_of_calls_ends_when_cancelled_with_the_result(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch, asking: Any
) -> None:
    canceller = Canceller(monkeypatch)
    calls = 0
    async with asking(server) as ask:
        await ask()

        async def loop() -> None:
            nonlocal calls
            while calls < 100:
                await ask()
                calls += 1

        task = asyncio.create_task(loop())
        canceller.task = task
        with pytest.raises(asyncio.CancelledError):
            await task
        assert calls == 0
        # The reply to the cancelled command is not read as that of another one.
        assert await ask() == await ask()


async def test_time_out_that_comes_with_the_result_is_raised(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_reader(server) as ask:
        await ask()
        send = AbstractConnection._send_packed_command
        now: list[asyncio.Timeout] = []

        async def late(connection: Any, command: Iterable[bytes]) -> None:
            await send(connection, command)
            now[0].reschedule(asyncio.get_running_loop().time() - 1)
            await asyncio.sleep(0)  # the time-out is over, and cancels, while the result is on its way

        monkeypatch.setattr(AbstractConnection, "_send_packed_command", late)

        async def loop() -> None:
            async with asyncio.timeout(WAIT) as timeout:
                now.append(timeout)
                while True:
                    await ask()

        with pytest.raises(TimeoutError):
            await loop()


async def test_cancelled_task_can_send_commands_to_clean_up(server: StoreServer) -> None:
    async with a_reader(server) as ask:
        cleaned = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await ask()
                cleaned.set()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.is_set()
