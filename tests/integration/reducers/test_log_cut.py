"""A Kafka that lost the end of its log and grew again past the marks: the view is rebuilt (R8)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.integration.conftest import Database
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT
from tests.support.reducer_drivers import Drivers

from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.topics import ensure_topic
from distributary.model.build import Build, Definition
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.redis_writer import RedisWriter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 * LIMIT)]

TOPIC = "cut"
HELD_DRIVER = (
    "-c",
    """
import pathlib, runpy, time
from distributary.reducers.build_progress import Progress

advance = Progress.advance

def after_a_while(*args, **words):
    while pathlib.Path("pause").exists():
        time.sleep(0.05)
    return advance(*args, **words)

Progress.advance = after_a_while
runpy.run_module("distributary.reducers", run_name="__main__", alter_sys=True)
""",
)
"""A driver whose jobs look at nothing while there is a file of this name."""


class Scene:
    """A broker that is killed, and views that count what is on its topic."""

    def __init__(self, broker: RunningBroker, url: str, folder: Path) -> None:
        self.broker = broker
        self.store = RedisWriter(url)
        self.drivers = Drivers(broker.broker.address, url, folder, 'batch_duration = "5 s"')
        # All is in the first partition; with a second one, views may be re-keyed.
        ensure_topic(librdkafka.admin(broker.kafka), TOPIC, 2)
        self.builds: list[Build] = []
        self.passes: dict[str, Callable[[int], bool]] = {}

    def define(self, name: str, passes: Callable[[int], bool] = lambda n: True, **words: Any) -> None:
        """Define a view that counts; ``passes`` is its ``where`` in Python."""
        count: dict[str, Any] = {"reduce": "aggregate", "aggregates": {"count": "count()", "total": "sum(n)"}}
        definition = Definition(View(name, "f", **count, **words), Feed("f", TOPIC))
        self.store.define(name, definition.build, definition.text)
        self.builds.append(Build(name, definition.build))
        self.passes[name] = passes

    def produce(self, first: int, count: int) -> None:
        producer = librdkafka.producer(self.broker.kafka)
        for n in range(first, first + count):
            producer.produce(TOPIC, json.dumps({"n": n}), "k", partition=0)
        assert producer.flush(60 * LIMIT) == 0

    def end(self) -> int:
        return topic_offsets.end_offsets(librdkafka.admin(self.broker.kafka), TOPIC)[0]

    def remaining(self) -> list[int]:
        """All that the topic has."""
        consumer = librdkafka.consumer(self.broker.kafka, "test", auto_offset_reset="earliest")
        try:
            end = self.end()
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
        remaining, expected = self.remaining(), {}
        for view, passes in self.passes.items():
            folded = [n for n in remaining if passes(n)]
            expected[view] = {"count": len(folded), "total": sum(folded)} if folded else None
        deadline = time.monotonic() + 60 * LIMIT
        while (found := self.rows()) != expected:
            self.drivers.check()
            assert time.monotonic() < deadline, (found, expected)
            await asyncio.sleep(0.1)

    async def marks_are_at_the_end(self) -> None:
        end = self.end()
        deadline = time.monotonic() + 60 * LIMIT
        while any(build.marks[0].offset + (build.marks[0].part > 0) < end for build in self.infos()):
            assert time.monotonic() < deadline, [build.marks for build in self.infos()]
            await asyncio.sleep(0.1)

    async def are_live(self) -> None:
        deadline = time.monotonic() + 60 * LIMIT
        while not all(build.status == "live" for build in self.infos()):
            self.drivers.check()
            assert time.monotonic() < deadline, self.infos()
            await asyncio.sleep(0.1)

    async def have_read_on(self, *views: str) -> None:
        """Wait until views have counted more than before the log was cut, or their tasks have refused to."""
        deadline = time.monotonic() + 60 * LIMIT
        while True:
            rows = self.rows()
            left = [
                build.view
                for build, info in zip(self.builds, self.infos(), strict=True)
                if build.view in views and rows[build.view]["count"] <= 300 and not info.fault
            ]
            if not left:
                return
            assert time.monotonic() < deadline, (left, rows)
            await asyncio.sleep(0.1)

    def infos(self) -> list[Any]:
        return [self.store.build(build) for build in self.builds]

    async def cut(self, size: int = 6_000) -> None:
        self.broker.kill()
        self.broker.lose_tail(TOPIC, 0, size)
        await asyncio.to_thread(self.broker.start)


@pytest.fixture
def scene(tmp_path: Path, database: Database) -> Iterator[Scene]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    broker = RunningBroker(folder)
    broker.start()
    one = Scene(broker, database.url, tmp_path)
    one.define("live")
    one.define("micro", engine="microbatch")
    # Nearly all is filtered out: only a batch's end moves its mark.
    one.define("some", lambda n: n % 50 == 0, where="n % 50 = 0")
    yield one
    one.drivers.stop()
    one.store.close()
    broker.stop()


async def test_views_are_rebuilt_only_when_their_log_was_cut_and_grew_again(scene: Scene) -> None:
    scene.drivers.start()
    for at in range(0, 300, 20):
        scene.produce(at, 20)
    await scene.rows_are_right()
    await scene.marks_are_at_the_end()
    before = scene.infos()
    # A broker that lost nothing: no view is rebuilt.
    scene.broker.kill()
    await asyncio.to_thread(scene.broker.start)
    scene.produce(300, 50)
    await scene.rows_are_right()
    await scene.marks_are_at_the_end()
    assert [one.epoch for one in scene.infos()] == [one.epoch for one in before]
    # The reducers are down too, and the log is longer than it was when they come back.
    scene.drivers.stop()
    await scene.cut()
    remaining = len(scene.remaining())
    assert remaining < 350, "nothing was cut off"
    scene.produce(1_000, 500)
    scene.drivers.start()
    await scene.rows_are_right()
    assert all(one.epoch != old.epoch for one, old in zip(scene.infos(), before, strict=True))


async def test_view_is_rebuilt_when_its_log_is_cut_under_running_reducers(scene: Scene) -> None:
    scene.drivers.start()
    for at in range(0, 300, 20):
        scene.produce(at, 20)
    await scene.rows_are_right()
    await scene.marks_are_at_the_end()
    await scene.cut()
    scene.produce(1_000, 500)
    await scene.rows_are_right()


async def test_view_is_rebuilt_when_its_log_is_cut_before_the_driver_checks_again(
    scene: Scene, tmp_path: Path
) -> None:
    """Batches go on while the driver waits for something else: tasks must notice what it has not."""
    scene.define("rekeyed", key="'k'", engine="microbatch")
    # Passes what is written over the lost records, and nothing that comes after.
    scene.define("few", lambda n: 1_000 <= n < 1_050, engine="microbatch", where="n >= 1000 and n < 1050")
    scene.drivers.start(HELD_DRIVER)
    await scene.are_live()  # with nothing to catch up with: no query is started again now
    scene.produce(0, 20)
    await scene.rows_are_right()
    pause = tmp_path / "pause"
    pause.touch()
    for at in range(20, 300, 20):
        scene.produce(at, 20)
    await scene.rows_are_right()
    await scene.cut(3_000)
    # What the driver has read is still there, and the lost records are more than "few" passes.
    assert 20 <= scene.end() < 250
    scene.produce(1_000, 500)
    await scene.have_read_on("micro", "rekeyed")
    pause.unlink()
    await scene.rows_are_right()
