"""Schemas and routes of ``[[topics]]``, on every way into Kafka that the stack offers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from confluent_kafka import TopicPartition
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import GatewayClient
from tests.support.fake_view import FakeView
from tests.support.serving_publisher import raw, serving
from tests.support.stack import Feeding, RunningStack

from distributary.cli.main import main
from distributary.config import Config
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.record_router import create_router
from distributary.kafka.topic_writer import TopicWriter
from distributary.kafka.topics import ensure_topic
from distributary.model.feed import Feed, Topic
from distributary.publisher.websocket.client_publish import ClientPublisher

BET = {"type": "object", "required": ["stake"], "properties": {"stake": {"type": "number"}}}
GOOD, LARGE, BAD = {"stake": 5}, {"stake": 5000}, {"stake": "much"}


@pytest.fixture
def config(settings: Config, stack: RunningStack, feeding: Feeding, tmp_path: Path) -> Config:
    """The topic of the test with a schema and a route."""
    bets, large = feeding.topic, f"{feeding.topic}-large"
    for name in (bets, large):
        ensure_topic(stack.admin(), name, 2)
    (tmp_path / "bet.json").write_text(json.dumps(BET))
    file = tmp_path / "distributary.toml"
    file.write_text(
        f'[kafka]\nbootstrap_servers = "{stack.config.kafka.bootstrap_servers}"\n'
        f'[[topics]]\nname = "{bets}"\nschema = "bet.json"\nroutes = {{ "{large}" = "stake >= 1000" }}\n'
    )
    return replace(settings, topics=(Topic(bets, "bet.json", routes={large: "stake >= 1000"}),), path=file)


@pytest.fixture
async def call(start: Start, config: Config) -> AsyncIterator[GatewayClient]:
    async with aiohttp.ClientSession() as http:
        yield GatewayClient(await start(config), http)


def values(stack: RunningStack, topic: str) -> list[tuple[Any, str]]:
    """Return the values in a topic, with the reasons of dead letters."""
    ends = topic_offsets.end_offsets(stack.admin(), topic)
    reader = librdkafka.consumer(stack.config.kafka, "test")
    reader.assign([TopicPartition(topic, number, 0) for number in ends])
    found: list[tuple[Any, str]] = []
    try:
        while len(found) < sum(ends.values()):
            message = reader.poll(5)
            assert message is not None
            assert message.error() is None
            headers: dict[str, Any] = dict(message.headers() or [])
            reason = headers.get("distributary-reason", b"")
            found.append((json.loads(message.value() or b""), reason.decode()))
    finally:
        reader.close()
    return found


def check(stack: RunningStack, topic: str) -> None:
    """Check that each topic has its one record."""
    assert values(stack, topic) == [(GOOD, "")]
    assert values(stack, f"{topic}-large") == [(LARGE, "")]
    ((letter, reason),) = values(stack, f"{topic}.dead-letters")
    assert letter == BAD
    assert "$.stake: 'much' is not of type 'number'" in reason


async def test_record_produced_by_version_2_is_checked_and_routed(
    call: GatewayClient, stack: RunningStack, feeding: Feeding
) -> None:
    sent = await call.produce(feeding.topic, GOOD, LARGE, BAD)
    assert sent.status == 200
    good, large, bad = sent.body["offsets"]
    assert (good["offset"], good["error"]) == (0, None)
    assert (large["offset"], large["error"]) == (0, None)
    assert (bad["offset"], bad["error_code"]) == (None, 1)
    assert "is not of type 'number'" in bad["error"]
    assert f"{feeding.topic}.dead-letters" in bad["error"]
    check(stack, feeding.topic)


async def test_record_produced_by_version_3_is_checked_and_routed(
    call: GatewayClient, stack: RunningStack, feeding: Feeding
) -> None:
    cluster = (await call("GET", "/v3/clusters")).body["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster}/topics/{feeding.topic}/records"
    replies = []
    for value in (GOOD, LARGE, BAD):
        body = {"value": {"type": "JSON", "data": value}}
        replies.append(await call("POST", path, body, type="application/json"))
    good, large, bad = replies
    assert (good.body["error_code"], good.body["topic_name"]) == (200, feeding.topic)
    assert (large.body["error_code"], large.body["topic_name"]) == (200, f"{feeding.topic}-large")
    assert (bad.status, bad.code) == (422, 422)
    assert "is not of type 'number'" in bad.body["message"]
    check(stack, feeding.topic)


async def test_record_published_by_a_client_is_checked_and_routed(
    config: Config, stack: RunningStack, feeding: Feeding
) -> None:
    writer = TopicWriter(config.kafka, create_router(config))
    fake_view = FakeView()
    client_publisher = ClientPublisher(
        [Feed("bets", feeding.topic, publish=True)], fake_view.reader, writer.send
    )
    async with serving(fake_view, client_publisher=client_publisher) as publisher, raw(publisher) as player:
        await player.connect()
        replies = []
        for at, value in enumerate((GOOD, LARGE, BAD), 2):
            await player.send({"id": at, "publish": {"channel": "feed:bets", "data": value}})
            replies.append(await player.next())
        assert replies[:2] == [{"id": 2, "publish": {}}, {"id": 3, "publish": {}}]
        assert replies[2]["error"]["code"] == 107
        assert "is not of type 'number'" in replies[2]["error"]["message"]
    await writer.close()
    check(stack, feeding.topic)


def test_record_of_the_produce_command_is_checked_and_routed(
    config: Config, stack: RunningStack, feeding: Feeding, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config.path is not None
    lines = config.path.with_name("lines")
    lines.write_text("".join(f"{json.dumps(one)}\n" for one in (GOOD, BAD, LARGE)))
    arguments = ["produce", feeding.topic, "--config", str(config.path), "-f", str(lines)]
    assert main(arguments) == 1
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        f"topic {feeding.topic}: 1 records written",
        f"topic {feeding.topic}-large: 1 records written by a route",
        f"topic {feeding.topic}.dead-letters: 1 dead letters; the first is {lines}:2: "
        "$.stake: 'much' is not of type 'number'",
    ]
    check(stack, feeding.topic)
    assert main([*arguments, "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["routed"] == {f"{feeding.topic}-large": 1}
    assert summary["dead_letters"] == {f"{feeding.topic}.dead-letters": 1}
