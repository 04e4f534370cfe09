"""Signs of life of a real Kafka and a real store: there while they work, gone while they are stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT
from tests.support.processes import suspend
from tests.support.servers import StoreServer

from distributary.stack import liveness
from distributary.stack.liveness import Sign

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    one = RunningBroker(folder)
    one.start()
    yield one
    one.stop()


async def given(sign: Sign, limit: float) -> bool:
    try:
        async with asyncio.timeout(limit * LIMIT):
            await sign()
    except OSError:  # a TimeoutError is one
        return False
    return True


async def until_given(sign: Sign) -> None:
    async with asyncio.timeout(30 * LIMIT):
        while not await given(sign, 1):
            await asyncio.sleep(0.05)


async def comes_and_goes(sign: Sign, pid: int) -> None:
    assert await given(sign, 5)
    suspend(pid)
    try:
        assert not await given(sign, 1.5)
        assert not await given(sign, 1.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    await until_given(sign)
    assert await given(sign, 5)


async def test_of_a_store(store: StoreServer) -> None:
    sign = liveness.of_store("127.0.0.1", store.port)
    await comes_and_goes(sign, store.pid)
    store.kill()
    assert not await given(sign, 1)
    store.start()
    await until_given(sign)


async def test_of_kafka(broker: RunningBroker) -> None:
    sign = liveness.of_kafka(broker.kafka)
    await comes_and_goes(sign, broker.pid)
    broker.kill()
    assert not await given(sign, 1)
    broker.start()
    await until_given(sign)
