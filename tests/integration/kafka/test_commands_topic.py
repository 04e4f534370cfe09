"""Commands through a real broker, and through its death."""

from __future__ import annotations

import queue
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT

from distributary.config.sections import Kafka
from distributary.errors import TopicError
from distributary.kafka import librdkafka
from distributary.kafka.commands_topic import CommandsProducer, CommandsReader, ensure_commands_topic
from distributary.kafka.topics import topic_config
from distributary.model.command import Command

pytestmark = pytest.mark.slow

Commands = queue.Queue[Command]


def command(number: int) -> Command:
    return Command("subscribe", "odds", f"s{number}", f"q{number}")


def take(received: Commands, count: int) -> list[Command]:
    return [received.get(timeout=40 * LIMIT) for _ in range(count)]


async def send(kafka: Kafka, *numbers: int) -> None:
    producer = CommandsProducer(kafka, timeout=30 * LIMIT)
    for number in numbers:
        await producer.send(command(number))
    await producer.close()


def named(kafka: Kafka, topic: str) -> Kafka:
    return replace(kafka, commands_topic=topic)


async def test_commands_topic_deletes_by_age(kafka: Kafka, admin: AdminClient) -> None:
    assert ensure_commands_topic(admin, kafka).partitions == 1
    config = topic_config(admin, kafka.commands_topic)
    assert config["cleanup.policy"] == "delete"
    assert config["retention.ms"] == str(7 * 24 * 3600 * 1000)


async def test_reader_gets_later_commands_from_the_end_and_all_from_earliest(
    kafka: Kafka, admin: AdminClient, name: str
) -> None:
    kafka = named(kafka, name)
    ensure_commands_topic(admin, kafka)
    await send(kafka, 1)
    late: Commands = queue.Queue()
    early: Commands = queue.Queue()
    readers = [
        CommandsReader(kafka, late.put).start(),
        CommandsReader(kafka, early.put, start="earliest").start(),
    ]
    assert all(reader.wait(20 * LIMIT) for reader in readers)
    await send(kafka, 2, 3)
    assert take(late, 2) == [command(2), command(3)]
    assert take(early, 3) == [command(1), command(2), command(3)]
    for reader in readers:
        reader.close()


async def test_reader_goes_on_after_foreign_records_and_failing_callbacks(
    kafka: Kafka, admin: AdminClient, name: str
) -> None:
    kafka = named(kafka, name)
    ensure_commands_topic(admin, kafka)
    received: Commands = queue.Queue()

    def fails_first(one: Command) -> None:
        received.put(one)
        if received.qsize() == 1:
            raise RuntimeError("no")

    reader = CommandsReader(kafka, fails_first).start()
    assert reader.wait(20 * LIMIT)
    foreign = librdkafka.producer(kafka)
    foreign.produce(kafka.commands_topic, b"not a command")
    foreign.produce(kafka.commands_topic, None, key=b"x")
    foreign.flush(20)
    await send(kafka, 1, 2)
    assert take(received, 2) == [command(1), command(2)]
    reader.close()


async def test_send_to_a_missing_topic_raises(kafka: Kafka, name: str) -> None:
    producer = CommandsProducer(named(kafka, name), timeout=5)
    with pytest.raises(TopicError):
        await producer.send(command(1))
    await producer.close()


async def test_reader_goes_on_without_gap_or_repeat_after_a_broker_restart(
    broker: RunningBroker,
) -> None:
    kafka = broker.kafka
    ensure_commands_topic(librdkafka.admin(kafka), kafka)
    received: Commands = queue.Queue()
    reader = CommandsReader(kafka, received.put).start()
    assert reader.wait(20 * LIMIT)
    await send(kafka, 1, 2)
    assert take(received, 2) == [command(1), command(2)]
    cluster = broker.broker.cluster_id()
    broker.kill()
    assert broker.start() == cluster
    await send(kafka, 3, 4)
    assert take(received, 2) == [command(3), command(4)]
    assert received.empty()
    reader.close()
