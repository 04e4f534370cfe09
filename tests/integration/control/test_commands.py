"""The control API and a real broker: requests are recorded on the commands topic."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.control.conftest import Start, client_of
from tests.integration.control.test_process import ODDS
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT
from tests.support.reducer_harness import ReducerHarness
from tests.support.servers import StoreServer

from distributary.kafka import librdkafka
from distributary.kafka.commands_topic import CommandsReader, ensure_commands_topic
from distributary.model.command import Command
from distributary.model.query import Query

pytestmark = pytest.mark.slow


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningBroker]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    running = RunningBroker(folder)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def bootstrap_servers(running: RunningBroker) -> str:
    return running.kafka.bootstrap_servers


def test_commands_are_on_the_topic_in_order(start: Start, store: StoreServer, running: RunningBroker) -> None:
    ensure_commands_topic(librdkafka.admin(running.kafka), running.kafka)
    heard: queue.Queue[Command] = queue.Queue()
    reader = CommandsReader(running.kafka, heard.put, start="earliest").start()
    api = client_of(start("distributary.control"))
    assert api.get("/readyz") == {"status": "ok", "alarms": []}
    api.call("PUT", "/v1/views/odds", {"feed": "odds", "key": "id"})
    ReducerHarness(store.url, ODDS).go_live()
    id = api.call("POST", "/v1/subscriptions", {"view": "odds", "where": "a = 1"})["id"]
    api.call("POST", f"/v1/subscriptions/{id}/begin")
    api.call("DELETE", f"/v1/subscriptions/{id}")
    found = [heard.get(timeout=20 * LIMIT) for _ in range(3)]
    reader.close()
    assert [(command.op, command.view, command.subscription) for command in found] == [
        ("subscribe", "odds", id),
        ("begin", "odds", id),
        ("end", "odds", id),
    ]
    assert found[0].query == Query.parse("odds", "a = 1").text
