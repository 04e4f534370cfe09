"""One task without Spark: records by hand, a real store and a real Kafka."""

from __future__ import annotations

import asyncio
import json
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.integration.conftest import Database
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack
from tests.support.wait import eventually

from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.topics import ensure_topic
from distributary.model.build import Build, Engine
from distributary.model.feed import Feed
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers.record_codec import Projection
from distributary.reducers.record_queue import PENDING_BYTES
from distributary.reducers.spark_task import WriterThread
from distributary.reducers.task_contract import Task
from distributary.reducers.topic_identity import LeaderChanged, Leaders
from distributary.store.consistent_read import read_registered
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

BUILD = Build("v", "b")

RELEASE = threading.Event()


def slow(row: Any, event: Any) -> Any:
    """A fold that takes as long as the test wants."""
    RELEASE.wait(30 * LIMIT)
    return {"n": event["n"]}


def record(offset: int, key: bytes, value: bytes, partition: int = 0) -> bytes:
    now = int(time.time() * 1000)
    return struct.pack(">iqqqIib", partition, offset, now, now, 0, len(key), 0) + key + value


class Tasks:
    """Pumps of one query."""

    def __init__(self, stack: RunningStack, database: Database) -> None:
        self._kafka = stack.config.kafka
        self.url = database.url
        self.store = RedisWriter(database.url)
        self._started: list[WriterThread] = []

    def claim(self, view: View, partitions: int = 1, **words: Any) -> Task:
        self.store.define("v", "b", "{}")
        self.claimed = self.store.claim(BUILD, "t", partitions).claim
        self.store.go_live(BUILD)
        feed = Feed("f", "t")
        words = {"leaders": Leaders("t", {}), **words}
        return Task(
            view=view,
            feed=feed,
            build=BUILD,
            claim=self.claimed,
            store_url=self.url,
            log_length=100,
            kafka=self._kafka,
            topic="t",
            projection=Projection(),
            **words,
        )

    def start(self, task: Task, number: int = 0) -> WriterThread:
        writer = WriterThread(task, number)
        writer.start()
        self._started.append(writer)
        return writer

    def keys(self) -> set[str]:
        return {key for key, _ in self.store.scan(BUILD, 0, 1_000)[1]}

    def heartbeats(self) -> dict[str, dict[str, Any]]:
        return {
            heartbeat.id: json.loads(heartbeat.stats)
            for heartbeat in self.store.heartbeats()
            if heartbeat.component == "reducer"
        }

    def close(self) -> None:
        for writer in self._started:
            writer.abandon()
        self.store.close()


@pytest.fixture
def tasks(stack: RunningStack, database: Database) -> Iterator[Tasks]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    one = Tasks(stack, database)
    yield one
    one.close()
    signal.signal(signal.SIGUSR1, before)


async def until(ready: Callable[[], bool], limit: float = 10.0) -> None:
    async def ask() -> bool:
        return ready()

    await eventually(ask, bool, limit)


async def test_timed_query_changes_although_no_command_arrived(tasks: Tasks) -> None:
    """Only the registry has the query, and no record follows it."""
    writer = tasks.start(tasks.claim(View("v", "f")))
    starts = int(time.time() * 1000 + 3_000 * LIMIT)
    writer.put([record(0, b"match", b'{"starts":%d}' % starts)])
    await until(lambda: tasks.keys() == {"match"})
    reader = RedisReader(tasks.url)
    query = Query.parse("v", "starts > now()")
    try:
        registered = await reader.register(
            "v", query_id=query.id, text=query.text, subscription="s", ttl_ms=60_000, begun=True
        )

        async def keys() -> list[str]:
            return [key for key, _ in (await read_registered(reader, BUILD, query, registered.number)).rows]

        assert await keys() == ["match"]
        await eventually(keys, lambda found: found == [], 10)
        assert starts <= time.time() * 1000 < starts + 3_000 * LIMIT
        log = await reader.log(BUILD, 1, 10)
        assert [change.removes for entry in log.entries for change in entry.changes] == [[registered.number]]
    finally:
        await reader.close()


async def test_task_opens_the_partition_that_the_driver_assigned(tasks: Tasks) -> None:
    task = tasks.claim(View("v", "f", ttl=2.0), partitions=2)
    writers = [tasks.start(task, number) for number in (0, 1)]
    writers[0].put([record(0, b"row-of-1", b'{"n":1}', partition=1)])
    writers[1].put([record(0, b"row-of-0", b'{"n":1}', partition=0)])
    await until(lambda: tasks.keys() == {"row-of-0", "row-of-1"})
    for writer in writers:
        writer.finish()
    # The next batch of the same query: no record arrives, and each task serves its own partition.
    tasks.store.assign(BUILD, tasks.claimed, [1, 0])
    writers = [tasks.start(task, number) for number in (0, 1)]
    await until(lambda: tasks.keys() == set())
    await until(lambda: {stats.get("partition") for stats in tasks.heartbeats().values()} == {0, 1})
    assert {id: stats["partition"] for id, stats in tasks.heartbeats().items()} == {"v/b/0": 1, "v/b/1": 0}
    writers[0].put([record(1, b"more", b'{"n":1}', partition=1)])
    await until(lambda: tasks.keys() == {"more"})
    await until(lambda: tasks.keys() == set())
    for writer in writers:
        writer.finish()


async def test_task_of_a_batch_opens_no_partition_without_records(tasks: Tasks) -> None:
    task = tasks.claim(View("v", "f", ttl=2.0), partitions=2, engine=Engine.MICRO_BATCH)
    tasks.store.assign(BUILD, tasks.claimed, [1, 0])
    tasks.start(task, 0).finish()
    build = tasks.store.build(BUILD)
    assert build is not None
    assert dict(build.marks) == {}
    opened = tasks.store.open(BUILD, 1, tasks.claimed)
    assert opened.token == 1, "it was not opened before"


async def test_heartbeat_of_a_task_that_folds_for_long_has_its_loop_age(tasks: Tasks) -> None:
    RELEASE.clear()
    writer = tasks.start(tasks.claim(View("v", "f", reduce=f"{__name__}:slow")))
    await until(lambda: "v/b/0" in tasks.heartbeats())
    writer.put([record(0, b"a", b'{"n":1}')])
    try:
        await until(lambda: tasks.heartbeats()["v/b/0"]["loop_age"] > 2.5)
        (heartbeat,) = [heartbeat for heartbeat in tasks.store.heartbeats() if heartbeat.id == "v/b/0"]
        assert heartbeat.age_ms < 3_000 * LIMIT
    finally:
        RELEASE.set()
    await until(lambda: tasks.keys() == {"a"})
    await until(lambda: tasks.heartbeats()["v/b/0"]["loop_age"] < 2.0)
    writer.finish()


async def test_pending_records_are_limited_in_bytes(tasks: Tasks) -> None:
    writer = WriterThread(tasks.claim(View("v", "f")), 0)  # not started: nothing is taken
    handed = 0

    def hand_on() -> None:
        nonlocal handed
        for offset in range(100):
            writer.put([record(offset, b"a", b'{"text":"%s"}' % (b"x" * 1_000_000))])
            handed += 1

    thread = threading.Thread(target=hand_on, daemon=True)
    thread.start()
    await until(lambda: handed * 1_000_000 >= PENDING_BYTES)
    await asyncio.sleep(0.2)
    assert handed * 1_000_000 <= PENDING_BYTES + 2_000_000
    writer.start()
    await until(lambda: not thread.is_alive(), 30)
    writer.abandon()


@pytest.mark.parametrize("of", ["leaders", "source_leaders"])
async def test_a_task_writes_nothing_after_an_election(tasks: Tasks, stack: RunningStack, of: str) -> None:
    """The epochs are read after the records arrived and before they are written."""
    admin = librdkafka.admin(stack.config.kafka)
    topic = ensure_topic(admin, f"elected-{of}", 1).name
    (epoch,) = topic_offsets.leader_epochs(admin, topic).values()
    for known, writes in ((epoch, True), (epoch - 1, False)):
        words: dict[str, Any] = {of: Leaders(topic, {0: known})}
        task = replace(tasks.claim(View("v", "f")), **words)
        writer = tasks.start(task)
        writer.put([record(0 if writes else 1, b"k" if writes else b"l", b"{}")])
        if writes:
            await asyncio.to_thread(writer.finish)
        else:
            with pytest.raises(LeaderChanged, match=f"partition 0 of {topic} has a new leader"):
                await asyncio.to_thread(writer.finish)
    assert tasks.keys() == {"k"}
    build = tasks.store.build(BUILD)
    assert build is not None
    assert build.fault.startswith(f"{task.claim.generation} leader-changed partition 0 of ")
