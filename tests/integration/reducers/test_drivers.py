"""Two drivers on one store: the newer goes on, the older ends by itself and says why."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from tests.integration.conftest import Database
from tests.support.clock import LIMIT
from tests.support.reducer_drivers import Drivers
from tests.support.stack import RunningStack

from distributary.kafka.topics import delete_topic, ensure_topic
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.redis_writer import RedisWriter

SUPERSEDED = 3


@pytest.mark.slow
@pytest.mark.timeout(240 * LIMIT)
async def test_older_of_two_drivers_ends_and_rows_stay_exact(
    stack: RunningStack, database: Database, tmp_path: Path
) -> None:
    topic = f"t-{tmp_path.name}-{os.getpid()}"
    admin = stack.admin()
    ensure_topic(admin, topic, 2)
    view = View("bets", "f", reduce="aggregate", aggregates={"bets": "count()"})
    definition = Definition(view, Feed("f", topic))
    writer = RedisWriter(database.url)
    build = Build("bets", definition.build)
    writer.define("bets", definition.build, definition.text)
    sent = 0

    async def feed_until(ready: str, generation: int) -> None:
        nonlocal sent
        deadline = time.monotonic() + 100 * LIMIT
        while True:
            stack.produce(topic, ((f"k{i % 10}", {"n": i}) for i in range(50)))
            sent += 50
            info = writer.build(build)
            if info is not None and info.generation >= generation and info.status == "live" and info.records:
                return
            assert time.monotonic() < deadline, f"no {ready}: {info}"
            await asyncio.sleep(0.1)

    drivers = Drivers(stack.config.kafka.bootstrap_servers, database.url, tmp_path)
    try:
        older = drivers.start()
        await feed_until("first driver", 1)
        drivers.start()
        while older.poll() is None:
            await feed_until("second driver", 1)
        assert older.returncode == SUPERSEDED
        report = drivers.log(0).read_text()
        assert "error: view bets: another driver has taken over" in report
        assert "Traceback" not in report.splitlines()[-1]
        await feed_until("rows by the second driver", 2)
        deadline = time.monotonic() + 60 * LIMIT
        while (counted := _count(writer, build)) != sent:
            assert counted < sent, "a record was folded twice"
            assert time.monotonic() < deadline, (counted, sent)
            await asyncio.sleep(0.1)
        assert drivers.started[1].poll() is None
    finally:
        drivers.stop()
        writer.close()
        delete_topic(admin, topic)


@pytest.mark.slow
@pytest.mark.timeout(240 * LIMIT)
async def test_without_slots_for_every_partition_a_view_runs_in_micro_batches(
    stack: RunningStack, database: Database, tmp_path: Path
) -> None:
    """Three slots: one view of two partitions is live in Real-Time Mode, the other must not take the rest."""
    topic = f"t-{tmp_path.name}-{os.getpid()}"
    admin = stack.admin()
    ensure_topic(admin, topic, 2)
    writer = RedisWriter(database.url)
    builds = []
    for name in ("one", "two"):
        view = View(name, "f", reduce="aggregate", aggregates={"bets": "count()"})
        definition = Definition(view, Feed("f", topic))
        writer.define(name, definition.build, definition.text)
        builds.append(Build(name, definition.build))
    drivers = Drivers(stack.config.kafka.bootstrap_servers, database.url, tmp_path, "slots = 3")
    try:
        drivers.start()
        async with asyncio.timeout(100 * LIMIT):
            while len(engines := _engines(writer)) < 2 or not all(engines.values()):
                await asyncio.sleep(0.1)
            assert sorted(engines.values()) == ["microbatch", "realtime"]
            for sent in (100, 200):
                stack.produce(topic, ((f"k{i % 10}", {"n": i}) for i in range(100)))
                while [_count(writer, build) for build in builds] != [sent, sent]:
                    await asyncio.sleep(0.1)
            assert sorted(_engines(writer).values()) == ["microbatch", "realtime"]
            first = next(name for name, engine in engines.items() if engine == "realtime")
            writer.drop_view(first)
            while set(_engines(writer).values()) != {"realtime"} or first in _engines(writer):
                await asyncio.sleep(0.1)
    finally:
        drivers.stop()
        writer.close()
        delete_topic(admin, topic)


def _engines(writer: RedisWriter) -> dict[str, str]:
    """What the driver says that its live views run on."""
    for heartbeat in writer.heartbeats():
        if heartbeat.component == "reducers":
            views = json.loads(heartbeat.stats)["views"].items()
            return {name: report["engine"] for name, report in views if report["status"] == "live"}
    return {}


def _count(writer: RedisWriter, build: Build) -> int:
    rows = writer.rows(build, [f"k{i}" for i in range(10)])
    return sum(json.loads(row.json)["bets"] for row in rows if row is not None)
