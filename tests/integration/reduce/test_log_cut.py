"""A Kafka that lost the end of its log and grew again past the marks: the view is rebuilt (R8)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.integration.conftest import Database
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT
from tests.support.drivers import Drivers

from distributary.kafka import client, topics
from distributary.model.definition import Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.redis import RedisWriter
from distributary.store.tail import Build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 * LIMIT)]

TOPIC = "cut"


class Scene:
    """A broker that is killed, and views that count what is on its topic."""

    def __init__(self, broker: RunningBroker, url: str, folder: Path) -> None:
        self.broker = broker
        self.store = RedisWriter(url)
        self.drivers = Drivers(broker.broker.address, url, folder, 'batch = "5 s"')
        topics.ensure_topic(client.admin(broker.kafka), TOPIC, 1)
        self.builds = []
        count: dict[str, Any] = {"reduce": "aggregate", "aggregates": {"count": "count()", "total": "sum(n)"}}
        for view in (
            View("live", "f", **count),
            View("micro", "f", engine="microbatch", **count),
            # Nearly all is filtered out: only a batch's end moves its mark.
            View("some", "f", where="n % 50 = 0", **count),
        ):
            definition = Definition(view, Feed("f", TOPIC))
            self.store.define(view.name, definition.build, definition.text)
            self.builds.append(Build(view.name, definition.build))

    def produce(self, first: int, count: int) -> None:
        producer = client.producer(self.broker.kafka)
        for n in range(first, first + count):
            producer.produce(TOPIC, json.dumps({"n": n}), "k")
        assert producer.flush(60 * LIMIT) == 0

    def kept(self) -> list[int]:
        """All that the topic has."""
        consumer = client.consumer(self.broker.kafka, "test", auto_offset_reset="earliest")
        try:
            (end,) = topics.end_offsets(client.admin(self.broker.kafka), TOPIC).values()
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            found: list[int] = []
            while len(found) < end:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    found.append(json.loads(message.value() or b"")["n"])
            return found
        finally:
            consumer.close()

    def rows(self) -> dict[str, Any]:
        found = {}
        for build in self.builds:
            row = self.store.rows(build, ["k"])[0]
            found[build.view] = json.loads(row.json) if row is not None else None
        return found

    async def rows_are_right(self) -> None:
        kept = self.kept()
        some = [n for n in kept if n % 50 == 0]
        whole = {"count": len(kept), "total": sum(kept)}
        expected = {"live": whole, "micro": whole, "some": {"count": len(some), "total": sum(some)}}
        deadline = time.monotonic() + 60 * LIMIT
        while (found := self.rows()) != expected:
            self.drivers.check()
            assert time.monotonic() < deadline, (found, expected)
            await asyncio.sleep(0.1)

    async def marks_are_at_the_end(self) -> None:
        (end,) = topics.end_offsets(client.admin(self.broker.kafka), TOPIC).values()
        deadline = time.monotonic() + 60 * LIMIT
        while any(build.marks[0].offset + (build.marks[0].part > 0) < end for build in self.infos()):
            assert time.monotonic() < deadline, [build.marks for build in self.infos()]
            await asyncio.sleep(0.1)

    def infos(self) -> list[Any]:
        return [self.store.build(build) for build in self.builds]

    async def cut(self) -> None:
        self.broker.kill()
        self.broker.lose_tail(TOPIC, 0, 6_000)
        await asyncio.to_thread(self.broker.start)


@pytest.fixture
def scene(tmp_path: Path, database: Database) -> Iterator[Scene]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    broker = RunningBroker(folder)
    broker.start()
    one = Scene(broker, database.url, tmp_path)
    yield one
    one.drivers.stop()
    one.store.close()
    broker.stop()


async def test_a_log_that_was_cut_and_grew_again_is_told_from_one_that_was_not(scene: Scene) -> None:
    scene.drivers.start()
    for at in range(0, 300, 20):
        scene.produce(at, 20)
    await scene.rows_are_right()
    await scene.marks_are_at_the_end()
    before = scene.infos()
    # A broker that lost nothing: nobody begins anew.
    scene.broker.kill()
    await asyncio.to_thread(scene.broker.start)
    scene.produce(300, 50)
    await scene.rows_are_right()
    await scene.marks_are_at_the_end()
    assert [one.epoch for one in scene.infos()] == [one.epoch for one in before]
    # The reducers are down too, and the log is longer than it was when they come back.
    scene.drivers.stop()
    await scene.cut()
    kept = len(scene.kept())
    assert kept < 350, "nothing was cut off"
    scene.produce(1_000, 500)
    scene.drivers.start()
    await scene.rows_are_right()
    assert all(one.epoch != old.epoch for one, old in zip(scene.infos(), before, strict=True))


async def test_a_log_that_is_cut_under_running_reducers(scene: Scene) -> None:
    scene.drivers.start()
    for at in range(0, 300, 20):
        scene.produce(at, 20)
    await scene.rows_are_right()
    await scene.marks_are_at_the_end()
    await scene.cut()
    scene.produce(1_000, 500)
    await scene.rows_are_right()
