"""A store that loses its last writes while none are made is folded again, on every engine (R2).

The end of its append-only file is cut off between two batches, as a failover to a replica that lags would do.
Sums and counts show what a lost or repeated record would spoil.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.reducer_drivers import Drivers
from tests.support.servers import StoreServer
from tests.support.stack import RunningStack

from distributary.kafka.topics import delete_topic, ensure_topic
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.setup.store_server import bundled
from distributary.store.redis_writer import RedisWriter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 * LIMIT)]

SMALL_BATCHES = (
    "-c",
    "import sys; from distributary.reducers import engine; engine.CATCH_UP_RECORDS = 200;"
    "from distributary.reducers.__main__ import main; sys.exit(main())",
)
"""Reducers that drain a backlog in many batches."""


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[StoreServer]:
    folder = tmp_path / "store"
    folder.mkdir()
    binary = bundled()
    assert binary is not None
    server = StoreServer(binary, folder, fsync="always")
    server.start()
    yield server
    server.stop()


class Views:
    """Views that count the records of one topic, and how many there must be."""

    def __init__(
        self, stack: RunningStack, store: StoreServer, drivers: Drivers, topic: str, engines: dict[str, str]
    ) -> None:
        self._stack = stack
        self._store = store
        self._topic = topic
        self._drivers = drivers
        self._builds = []
        self.sent = 0
        writer = RedisWriter(store.url)
        for name, engine in engines.items():
            view: Any = View(
                name,
                "f",
                reduce="aggregate",
                aggregates={"count": "count()", "total": "sum(n)"},
                engine=engine,
            )
            definition = Definition(view, Feed("f", topic))
            writer.define(name, definition.build, definition.text)
            self._builds.append(Build(name, definition.build))
        writer.close()

    def produce(self, count: int) -> None:
        self._stack.produce(self._topic, ((f"k{n % 10}", {"n": 1}) for n in range(count)))
        self.sent += count

    def counted(self) -> dict[str, int]:
        """How many records each view's rows hold; a sum that is not the count fails."""
        self._drivers.check()
        writer = RedisWriter(self._store.url)
        found = {}
        try:
            for build in self._builds:
                rows = [
                    json.loads(row.json) for row in writer.rows(build, [f"k{n}" for n in range(10)]) if row
                ]
                found[build.view] = sum(row["count"] for row in rows)
                assert found[build.view] == sum(row["total"] for row in rows)
        finally:
            writer.close()
        return found

    async def all_counted(self) -> None:
        deadline = time.monotonic() + 60 * LIMIT
        while set((found := self.counted()).values()) != {self.sent}:
            assert max(found.values()) <= self.sent, f"folded twice: {found} of {self.sent}"
            assert time.monotonic() < deadline, f"lost: {found} of {self.sent}"
            await asyncio.sleep(0.1)

    async def go_back(self, size: int) -> None:
        """Let the store lose what was written last."""
        self._store.kill()
        self._store.lose_tail(size)
        await asyncio.to_thread(self._store.start)


async def test_rows_are_exact_when_the_store_goes_back_between_batches_and_in_real_time_mode(
    stack: RunningStack, own_store: StoreServer, tmp_path: Path
) -> None:
    topic = f"t-{tmp_path.name}-{os.getpid()}"
    ensure_topic(stack.admin(), topic, 2)
    drivers = Drivers(stack.config.kafka.bootstrap_servers, own_store.url, tmp_path, 'batch_duration = "5 s"')
    views = Views(stack, own_store, drivers, topic, {"micro": "microbatch", "live": "realtime"})
    try:
        drivers.start()
        for lost in (0, 5_000, 200, 20_000, 1):
            views.produce(100)
            await views.all_counted()
            if lost:
                await views.go_back(lost)
                # What comes next must not hide that records before it are gone.
                views.produce(10)
        await views.all_counted()
    finally:
        drivers.stop()
        delete_topic(stack.admin(), topic)


async def test_rows_are_exact_when_the_store_goes_back_between_batches_of_a_backlog(
    stack: RunningStack, own_store: StoreServer, tmp_path: Path
) -> None:
    topic = f"t-{tmp_path.name}-{os.getpid()}"
    ensure_topic(stack.admin(), topic, 2)
    drivers = Drivers(stack.config.kafka.bootstrap_servers, own_store.url, tmp_path)
    views = Views(stack, own_store, drivers, topic, {"backlog": "auto"})
    views.produce(12_000)
    try:
        drivers.start(SMALL_BATCHES)
        before = 0
        for lost in (3_000, 300, 8_000):
            deadline = time.monotonic() + 90 * LIMIT
            while (now := views.counted()["backlog"]) < before + 600:
                assert time.monotonic() < deadline, f"it stays at {now}"
                await asyncio.sleep(0.02)
            before = now
            await views.go_back(lost)
        assert before < views.sent, "the backlog was drained before the store went back"
        await views.all_counted()
    finally:
        drivers.stop()
        delete_topic(stack.admin(), topic)
