"""Reducers on a Spark standalone cluster, from the same configuration; a killed worker loses nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Database
from tests.support.clock import LIMIT
from tests.support.processes import Process
from tests.support.spark_cluster import SparkCluster
from tests.support.stack import RunningStack
from tests.support.wait import eventually

from distributary.kafka.topics import delete_topic, ensure_topic
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.redis_writer import RedisWriter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 * LIMIT)]

KEYS = 10
SETTINGS = """
[spark]
master = "{master}"
memory = "512m"
[spark.properties]
spark.driver.host = "127.0.0.1"
spark.executor.extraJavaOptions = "-XX:TieredStopAtLevel=1"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """Two workers, each with room for the two tasks of a view and one more."""
    found = SparkCluster(tmp_path, workers=2, cores=3)
    found.start()
    yield found
    found.stop()


class Counting:
    """A view that counts, and how many records it must have counted."""

    def __init__(self, stack: RunningStack, url: str, topic: str) -> None:
        self._stack = stack
        self._topic = topic
        self.sent = 0
        self.store = RedisWriter(url)
        view = View("bets", "f", reduce="aggregate", aggregates={"bets": "count()"})
        definition = Definition(view, Feed("f", topic))
        self.build = Build("bets", definition.build)
        self.store.define("bets", definition.build, definition.text)

    def produce(self, count: int) -> None:
        self._stack.produce(self._topic, ((f"k{n % KEYS}", {"n": n}) for n in range(count)))
        self.sent += count

    async def counted(self) -> int:
        rows = self.store.rows(self.build, [f"k{n}" for n in range(KEYS)])
        found: int = sum(json.loads(row.json)["bets"] for row in rows if row is not None)
        assert found <= self.sent, "a record was folded twice"
        return found

    async def engine(self) -> str:
        """What the driver says that the view runs on, once it is live."""
        for heartbeat in self.store.heartbeats():
            if heartbeat.component == "reducers":
                stats = json.loads(heartbeat.stats)["views"].get("bets", {})
                return str(stats.get("engine")) if stats.get("status") == "live" else ""
        return ""

    async def tasks(self) -> dict[int, int]:
        """The process of each task of the newest generation."""
        stats = [
            json.loads(heartbeat.stats)
            for heartbeat in self.store.heartbeats()
            if heartbeat.component == "reducer"
        ]
        newest = max((one["generation"] for one in stats), default=0)
        return {
            one["partition"]: one["pid"]
            for one in stats
            if one["generation"] == newest and "partition" in one
        }


async def test_a_view_runs_on_two_workers_and_outlives_one(
    stack: RunningStack, database: Database, cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = f"t-{tmp_path.name}-{os.getpid()}"
    ensure_topic(stack.admin(), topic, 2)
    counting = Counting(stack, database.url, topic)
    file = tmp_path / "distributary.toml"
    file.write_text(SETTINGS.format(master=cluster.url))
    env = {
        "DISTRIBUTARY_CONFIG": str(file),
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": stack.config.kafka.bootstrap_servers,
        "DISTRIBUTARY_STORE_URL": database.url,
    }
    driver = await asyncio.to_thread(Process, "distributary.reducers", env, tmp_path / "driver.log")
    try:
        await eventually(counting.engine, lambda found: found == "realtime", 120)
        counting.produce(200)
        await eventually(counting.counted, lambda found: found == counting.sent, 60)
        delays = [await one_by_one(counting) for _ in range(20)]
        assert sorted(delays)[10] < 0.5 * LIMIT, delays

        tasks = await eventually(counting.tasks, lambda found: len(found) == 2)
        cluster.kill(cluster.worker_of(tasks[0]))
        deadline = time.monotonic() + 60 * LIMIT
        left: Any = tasks
        while left.get(0, tasks[0]) == tasks[0] or len(left) < 2:
            counting.produce(50)
            left = await counting.tasks()
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.1)
        await eventually(counting.counted, lambda found: found == counting.sent, 60)
        assert await counting.engine() == "realtime"
        assert len({cluster.worker_of(pid) for pid in left.values()}) == 1
        assert driver.running
    finally:
        driver.stop()
        counting.store.close()
        delete_topic(stack.admin(), topic)


def test_spark_that_cannot_start_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "distributary.toml").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "distributary.reducers"],
        env={
            **os.environ,
            "DISTRIBUTARY_CONFIG": str(tmp_path / "distributary.toml"),
            "DISTRIBUTARY_STORE_URL": "redis://127.0.0.1:1/0",
            "DISTRIBUTARY_SPARK_MASTER": "local[0]",
        },
        capture_output=True,
        text=True,
        timeout=60 * LIMIT,
    )
    assert done.returncode == 1
    error = next(line for line in done.stderr.splitlines() if line.startswith("error:"))
    assert "cannot start Spark at local[0]" in error
    assert "Traceback" not in done.stderr


async def one_by_one(counting: Counting) -> float:
    """How long one record takes, from when Kafka has it until its row is in the store."""
    counting.produce(1)  # with a producer of its own, which takes half a second to begin
    began = time.monotonic()
    while await counting.counted() < counting.sent:
        assert time.monotonic() - began < 30 * LIMIT
        await asyncio.sleep(0.002)
    return time.monotonic() - began
