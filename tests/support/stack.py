"""One real stack for all tests of a run: Kafka, store, Spark, control API, two publishers.

Each test has topics and views of its own, so tests do not see each other.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from confluent_kafka import Message, TopicPartition

from distributary.auth.token_issuer import create_stack_token
from distributary.config import Config, load
from distributary.config.embedded_defaults import with_embedded
from distributary.kafka import librdkafka
from distributary.kafka.topics import get_topic
from distributary.stack.embedded_stack import Stack
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter
from tests.support.broker import keep_old_records
from tests.support.clock import LIMIT


class RunningStack:
    """A stack in a thread of its own, because tests come and go with event loops of theirs."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.folder = folder
        path = folder / "distributary.toml"
        if not path.exists():
            path.write_text(settings)
        self.given = load(path, env={})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.events: list[str] = []
        self.stack: Stack

    def start(self, services: Any = None) -> RunningStack:
        """Start, and wait until every component serves."""
        if not self._thread.is_alive():
            self._thread.start()
        self.stack = Stack(
            self.given, listener=lambda event: self.events.append(str(event)), services=services
        )
        self.call(self.stack.__aenter__(), 60)
        try:
            self.call(self.stack.wait_ready(), 180)
            keep_old_records(self.config.kafka)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every component."""
        self.call(self.stack.__aexit__(None, None, None), 30)

    def close(self) -> None:
        """End the thread too."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def kill(self, component: str) -> None:
        """SIGKILL one component, which the stack restarts."""

        async def kill() -> None:
            self.stack.kill(component)

        self.call(kill(), 10)

    def call(self, work: Any, limit: float) -> Any:
        """Run something on the stack's own loop."""
        found: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return found.result(limit * LIMIT)

    @property
    def config(self) -> Config:
        """The configuration with the addresses that were chosen."""
        return self.stack.config

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the components."""
        return self.stack.addresses

    @property
    def own(self) -> dict[str, str]:
        """The authorization header of the stack itself."""
        return {"Authorization": f"Bearer {create_stack_token(self.config.data_dir)}"}

    def admin(self) -> Any:
        """A Kafka admin client."""
        return librdkafka.admin(self.config.kafka)

    def writer(self) -> RedisWriter:
        """A blocking store client."""
        return RedisWriter(self.config.store.url)

    def reader(self) -> RedisReader:
        """An asyncio store client."""
        return RedisReader(self.config.store.url)

    def worker(self, view: str) -> int:
        """The id of a process that runs a reducer of the view, by its own word."""
        writer = self.writer()
        try:
            described = [
                json.loads(beat.stats) for beat in writer.heartbeats() if beat.id.startswith(f"{view}/")
            ]
            return int(described[0]["pid"])
        finally:
            writer.close()

    def produce(self, topic: str, records: Iterable[tuple[Any, Any]], **words: Any) -> None:
        """Write records, acknowledged; a value that is no bytes or None is written as JSON."""
        producer = librdkafka.producer(self.config.kafka, linger_ms=5)
        failures: list[Any] = []
        words["on_delivery"] = lambda error, _: failures.append(error) if error else None
        for key, value in records:
            body = value if value is None or isinstance(value, bytes) else json.dumps(value)
            while True:
                try:
                    producer.produce(topic, key=key, value=body, **words)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(30 * LIMIT) == 0
        assert not failures, failures[0]

    def read(self, topic: str, count: int, limit: float = 20.0) -> list[Message]:
        """Read a topic's first records."""
        consumer = librdkafka.consumer(self.config.kafka, f"test-{uuid.uuid4()}")
        found: list[Message] = []
        try:
            parts = get_topic(self.admin(), topic).partitions
            consumer.assign([TopicPartition(topic, p, 0) for p in range(parts)])
            deadline = time.monotonic() + limit * LIMIT
            while len(found) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(message)
        finally:
            consumer.close()
        return found


class AttachedStack(RunningStack):
    """A stack that is already running (``DISTRIBUTARY_TEST_STACK`` names its folder), to try single tests."""

    def __init__(self, folder: Path) -> None:
        state = json.loads((folder / ".distributary" / "stack.json").read_text())
        self.folder = folder
        self._addresses: dict[str, str] = state["addresses"]
        overrides = {
            "kafka.bootstrap_servers": self._addresses["kafka"],
            "store.port": self._addresses["store"].rpartition(":")[2].removesuffix("/0"),
        }
        self._config = with_embedded(load(folder / "distributary.toml", env={}, overrides=overrides))

    @property
    def config(self) -> Config:
        return self._config

    def kill(self, component: str) -> None:
        state = json.loads((self.folder / ".distributary" / "stack.json").read_text())
        os.kill(next(one["pid"] for one in state["components"] if one["name"] == component), signal.SIGKILL)

    @property
    def addresses(self) -> dict[str, str]:
        return self._addresses


@dataclass
class Feeding:
    """A test's own topic and views on a running stack."""

    stack: RunningStack
    topic: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:10]}")
    views: list[str] = field(default_factory=list)

    async def view(
        self,
        wait: bool = True,
        feed: Mapping[str, Any] | None = None,
        events: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> str:
        """Define a view through the control API and wait until it is live; return its name.

        ``events`` is for a second feed, on the topic ``events_topic``.
        """
        name = settings.pop("name", None) or f"v{uuid.uuid4().hex[:10]}"
        body = {
            "view": {"name": name, **settings},
            "feed": {"name": "f" + self.topic, "topic": self.topic, "create": True, **(feed or {})},
        }
        body["view"]["feed"] = body["feed"]["name"]
        if events is not None:
            body["events"] = {
                "name": "e" + self.topic,
                "topic": self.events_topic,
                "create": True,
                **events,
            }
            body["view"]["events"] = body["events"]["name"]
        if name not in self.views:
            self.views.append(name)
        async with aiohttp.ClientSession() as http:
            url = f"{self.stack.addresses['control']}/v1/views/{name}"
            async with http.put(url, json=body, headers=self.stack.own) as reply:
                assert reply.status == 202, await reply.text()
        if wait:
            await self.live(name)
        return name

    @property
    def events_topic(self) -> str:
        """The topic of the event feed."""
        return f"{self.topic}-events"

    async def live(self, name: str, engine: str = "") -> dict[str, Any]:
        """Wait until a view is live (and runs on an engine)."""

        def ready(described: dict[str, Any]) -> bool:
            return described.get("status") == "live" and (not engine or described.get("engine") == engine)

        return await self.until(name, ready)

    async def describe(self, name: str) -> dict[str, Any]:
        """What the control API says of a view."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.stack.addresses['control']}/v1/views/{name}/status") as reply,
        ):
            found: dict[str, Any] = await reply.json()
            return found

    async def until(
        self, name: str, ready: Callable[[dict[str, Any]], bool], limit: float = 60.0
    ) -> dict[str, Any]:
        """Wait until the description of a view is ``ready``."""
        deadline = time.monotonic() + limit * LIMIT
        while True:
            described = await self.describe(name)
            if ready(described):
                return described
            if time.monotonic() > deadline:
                raise AssertionError(f"view {name} is not as expected: {described}")
            await asyncio.sleep(0.1)

    def produce(self, records: Iterable[tuple[Any, Any]], **words: Any) -> None:
        """Write records to this test's topic."""
        self.stack.produce(self.topic, records, **words)

    async def rows(self, name: str) -> dict[str, Any]:
        """All rows of a view, from the store."""
        from distributary.model.build import Build

        reader = self.stack.reader()
        try:
            info = await reader.view(name)
            assert info is not None
            cursor, out = 0, {}
            while True:
                page = await reader.page(Build(name, info.live), cursor, 1000)
                out.update({key: json.loads(row.json) for key, row in page.rows})
                cursor = page.cursor
                if not cursor:
                    return out
        finally:
            await reader.close()

    async def rows_become(self, name: str, expected: dict[str, Any], limit: float = 30.0) -> None:
        """Wait until a view's rows are these."""
        deadline = time.monotonic() + limit * LIMIT
        while (found := await self.rows(name)) != expected:
            if time.monotonic() > deadline:
                assert found == expected
            await asyncio.sleep(0.05)

    async def drop(self) -> None:
        """Delete this test's views."""
        async with aiohttp.ClientSession() as http:
            for name in self.views:
                url = f"{self.stack.addresses['control']}/v1/views/{name}"
                async with http.delete(url, headers=self.stack.own) as reply:
                    await reply.read()
