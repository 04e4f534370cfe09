"""The monitor does not wait for what hangs, and reports it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.control_api import Api, Cluster

from distributary.control.monitor import MISSED_HEARTBEATS, Monitor
from distributary.control.observation import KafkaObservation
from distributary.stack import stack_file
from distributary.stack.processes import birth
from distributary.stack.stack_file import Phase, StackState


class Hangs(Cluster):
    """A Kafka that does not respond, and does not say so."""

    def observe(self, names: set[str]) -> KafkaObservation:
        time.sleep(6)
        return KafkaObservation()


async def names(monitor: Monitor) -> list[str]:
    return [alarm.name for alarm in (await monitor.observe()).alarms]


async def test_observation_does_not_wait_for_a_hanging_kafka(api: Api) -> None:
    monitor = Monitor(api.config, api.store.reader, Hangs())
    began = time.monotonic()
    assert await names(monitor) == ["kafka-unreachable"]
    assert time.monotonic() - began < 5
    monitor.close()


async def test_observation_without_the_store_has_the_rest(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: Any) -> Any:
        raise ConnectionError("refused")

    for name in ("views", "heartbeats"):
        monkeypatch.setattr(api.store.reader, name, fails)
    seen = await Monitor(api.config, api.store.reader, api.kafka).observe()
    assert seen.observation.overview is None
    assert seen.observation.kafka is not None
    assert seen.observation.kafka.answers


async def test_supervisor_without_heartbeats_is_silent(api: Api) -> None:
    folder = api.config.data_dir
    stack_file.write(folder, StackState("s", os.getpid(), birth(os.getpid()), Phase.READY))
    monitor = Monitor(api.config, api.store.reader, api.kafka)
    for _ in range(MISSED_HEARTBEATS):
        assert await names(monitor) == []
    assert await names(monitor) == ["part-silent"]
    os.utime(folder / stack_file.FILE)
    assert await names(monitor) == []


async def test_supervisor_that_was_killed_is_silent_and_one_that_stopped_is_not(api: Api) -> None:
    folder = api.config.data_dir
    stack_file.write(folder, StackState("s", 2**22 + 1, "", Phase.READY))
    monitor = Monitor(api.config, api.store.reader, api.kafka)
    assert await names(monitor) == ["part-silent"]
    stack_file.write(folder, StackState("s", 2**22 + 1, "", Phase.STOPPED))
    assert await names(monitor) == []


async def test_observation_is_reused_until_it_is_old(api: Api) -> None:
    monitor = Monitor(api.config, api.store.reader, api.kafka, max_age=0.2)
    first = await monitor.now()
    assert await monitor.now() is first
    await asyncio.sleep(0.25)
    assert await monitor.now() is not first


async def test_two_concurrent_requests_are_answered(api: Api, tmp_path: Path) -> None:
    monitor = Monitor(api.config, api.store.reader, api.kafka, max_age=0.0)
    found = await asyncio.gather(*(monitor.now() for _ in range(5)))
    assert len(found) == 5
