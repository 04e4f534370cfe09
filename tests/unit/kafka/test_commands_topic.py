from __future__ import annotations

import pytest
from tests.support.servers import free_port

from distributary.config.sections import Kafka
from distributary.errors import KafkaUnavailable
from distributary.kafka.commands_topic import CommandsProducer, CommandsReader
from distributary.model.command import Command


def nowhere() -> Kafka:
    return Kafka(bootstrap_servers=f"127.0.0.1:{free_port()}")


async def test_send_raises_when_no_broker_acknowledges() -> None:
    producer = CommandsProducer(nowhere(), timeout=0.3)
    with pytest.raises(KafkaUnavailable, match="a command for topic"):
        await producer.send(Command("end", "odds", "s1"))
    await producer.close(0.1)


def test_reader_without_kafka_waits_and_can_be_closed() -> None:
    reader = CommandsReader(nowhere(), lambda command: None).start()
    assert not reader.wait(0.1)
    reader.close()


def test_reader_that_never_started_can_be_closed() -> None:
    CommandsReader(nowhere(), lambda command: None).close()
