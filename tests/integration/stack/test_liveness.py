"""Liveness checks of a real Kafka and a real store: they pass while these work, and fail while they hang."""

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

from distributary.stack.component import LivenessCheck
from distributary.stack.stack_components import kafka_responds, store_responds

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    one = RunningBroker(folder)
    one.start()
    yield one
    one.stop()


async def given(check: LivenessCheck, limit: float) -> bool:
    try:
        async with asyncio.timeout(limit * LIMIT):
            await check()
    except OSError:  # a TimeoutError is one
        return False
    return True


async def until_given(check: LivenessCheck) -> None:
    async with asyncio.timeout(30 * LIMIT):
        while not await given(check, 1):
            await asyncio.sleep(0.05)


async def comes_and_goes(check: LivenessCheck, pid: int) -> None:
    assert await given(check, 5)
    suspend(pid)
    try:
        assert not await given(check, 1.5)
        assert not await given(check, 1.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    await until_given(check)
    assert await given(check, 5)


async def test_store_check_passes_while_the_store_responds(store: StoreServer) -> None:
    check = store_responds("127.0.0.1", store.port)
    await comes_and_goes(check, store.pid)
    store.kill()
    assert not await given(check, 1)
    store.start()
    await until_given(check)


async def test_kafka_check_passes_while_the_broker_responds(broker: RunningBroker) -> None:
    check = kafka_responds(broker.kafka)
    await comes_and_goes(check, broker.pid)
    broker.kill()
    assert not await given(check, 1)
    broker.start()
    await until_given(check)
