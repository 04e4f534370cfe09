"""The control API over a store in memory, and stand-ins for Kafka."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from distributary.auth.token_issuer import create_stack_token
from distributary.config import Config
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.control.monitor import Monitor
from distributary.control.observation import KafkaObservation, NextRecord
from distributary.errors import KafkaUnavailable
from distributary.model.build import Build, Definition
from distributary.model.command import Command
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.store.memory_store import MemoryStore

FEED = Feed("odds", "sportsbook.odds")
VIEW = View("odds", "odds", key="market_id")


@dataclass
class Announced:
    """Takes the place of the commands topic."""

    commands: list[Command] = field(default_factory=list)
    down: bool = False

    async def send(self, command: Command) -> None:
        if self.down:
            raise KafkaUnavailable("no broker answers")
        self.commands.append(command)


@dataclass
class Cluster:
    """Takes the place of Kafka: where its topics end."""

    ends: dict[str, dict[int, int]] = field(default_factory=dict)
    down: bool = False

    def observe(self, names: set[str]) -> KafkaObservation:
        if self.down:
            return KafkaObservation(answers=False, error="no broker answers")
        return KafkaObservation(ends=self.ends)

    def next_records(self, topic: str, offsets: dict[int, int]) -> dict[int, NextRecord | None]:
        return dict.fromkeys(offsets)


class Api:
    """The API over a store in memory, with the calls that tests make, by the stack's own token."""

    def __init__(self, data_dir: Path) -> None:
        self.now = 1_000_000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.announced = Announced()
        self.config = Config(feeds=(FEED,), views=(VIEW,), data_dir=data_dir)
        self.kafka = Cluster()
        monitor = Monitor(self.config, self.store.reader, self.kafka, max_age=0.0)
        self.context = Context(self.config, self.store.reader, self.store.writer, self.announced, monitor)
        own = {"Authorization": f"Bearer {create_stack_token(data_dir)}"}
        self.client: Any = TestClient(TestServer(make_app(self.context)), headers=own)

    def define(self, view: View = VIEW, feed: Feed = FEED, status: str = "live") -> Build:
        definition = Definition(view, feed)
        self.store.writer.define(view.name, definition.build, definition.text)
        build = Build(view.name, definition.build)
        if status == "live":
            self.store.writer.go_live(build)
        else:
            self.store.writer.update_build(build, status=status, reason="because")
        return build

    async def get(self, path: str, status: int = 200) -> Any:
        return await self.call("GET", path, status=status)

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return await self.call("POST", path, body, status)

    async def call(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """Call and check the status; every error must have the one shape."""
        data = body if body is None or isinstance(body, (bytes, io.BytesIO)) else json.dumps(body).encode()
        async with self.client.request(method, path, data=data) as reply:
            return await check(reply, status)


async def check(reply: ClientResponse, status: int) -> Any:
    text = await reply.text()
    assert reply.status == status, text
    if status == 204:
        return None
    found = json.loads(text)
    if status >= 400:
        assert set(found) == {"error"}
        error = found["error"]
        assert set(error) == {"code", "message", "hint", "retry"}
        assert error["message"]
        assert "Traceback" not in text
        return error
    return found
