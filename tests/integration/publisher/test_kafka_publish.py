"""Messages of clients on a real broker, which stops and restarts."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from confluent_kafka import Message, TopicPartition
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT
from tests.support.fake_view import FakeView
from tests.support.serving_publisher import raw, serving

from distributary.config.sections import Kafka
from distributary.errors import KafkaUnavailable, TopicError
from distributary.kafka import librdkafka
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import RecordRouter
from distributary.kafka.topic_writer import TopicWriter
from distributary.kafka.topics import ensure_topic
from distributary.model.feed import Feed
from distributary.publisher.websocket.client_publish import ClientPublisher

TOPIC = "game.moves"
FEED = Feed("moves", TOPIC, publish=True, publish_key="player")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path_factory.mktemp("broker"))
    running.start()
    ensure_topic(librdkafka.admin(running.kafka), TOPIC, 2)
    yield running
    running.stop()


@pytest.fixture
async def writer(broker: RunningBroker) -> AsyncIterator[TopicWriter]:
    made = TopicWriter(broker.kafka, RecordRouter({}), timeout=2.0 * LIMIT)
    yield made
    await made.close(1.0)


def records(broker: RunningBroker, count: int) -> list[Message]:
    """Read the topic from its beginning until there are that many records."""
    consumer = librdkafka.consumer(broker.kafka, "test")
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(2)])
    found: list[Message] = []
    deadline = time.monotonic() + 20 * LIMIT
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    return found


async def test_acknowledged_message_is_in_kafka(broker: RunningBroker, writer: TopicWriter) -> None:
    """Also after the broker was killed: a client retries, and no acknowledged move is lost."""
    fake_view = FakeView()
    client_publisher = ClientPublisher([FEED], fake_view.reader, writer.send)
    async with serving(fake_view, client_publisher=client_publisher) as publisher, raw(publisher) as player:
        await player.connect()
        moves = [{"player": f"p{n % 3}", "n": n} for n in range(20)]
        await player.send(
            *({"id": n + 2, "publish": {"channel": "feed:moves", "data": m}} for n, m in enumerate(moves))
        )
        assert {(await player.next())["id"] for _ in moves} == set(range(2, 22))
        found = records(broker, 20)
        by_player: dict[bytes, list[int]] = {}
        for one in found:
            key, value = one.key(), one.value()
            assert key is not None
            assert value is not None
            assert json.loads(value)["player"].encode() == key
            by_player.setdefault(key, []).append(json.loads(value)["n"])
        assert all(numbers == sorted(numbers) for numbers in by_player.values())
        assert len(by_player) == 3

        broker.kill()
        last = {"channel": "feed:moves", "data": {"player": "p0", "n": 99}}
        await player.send({"id": 30, "publish": last})
        error = (await player.next())["error"]
        assert (error["code"], error["temporary"]) == (100, True)
        broker.start()
        await player.send({"id": 31, "publish": last})
        assert await player.next() == {"id": 31, "publish": {}}
        values = [json.loads(one.value() or b"") for one in records(broker, 21)]
        assert {"player": "p0", "n": 99} in values
        assert len([value for value in values if value["n"] != 99]) == 20
        assert publisher.stats.publishes == {"written": 21, "refused": 1}


async def test_publish_to_a_missing_topic_is_an_error(broker: RunningBroker, writer: TopicWriter) -> None:
    with pytest.raises(TopicError, match=r"nowhere"):
        await writer.send(OutgoingRecord("nowhere", b"{}"))


async def test_publish_without_a_broker_is_an_error() -> None:
    writer = TopicWriter(Kafka(bootstrap_servers="127.0.0.1:9"), RecordRouter({}), timeout=1.0)
    with pytest.raises(KafkaUnavailable):
        await writer.send(OutgoingRecord(TOPIC, b"{}"))
    await writer.close(0.1)
    await TopicWriter(Kafka(bootstrap_servers="127.0.0.1:9"), RecordRouter({})).close()  # an unused one
