"""Record keys, read again from a real topic."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.wait import eventually

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.changed_keys import ChangedKeys
from distributary.kafka.topics import ensure_topic
from distributary.model.position import Mark

pytestmark = pytest.mark.slow


def produce(kafka: Kafka, topic: str, *records: tuple[int, str | None], **more: Any) -> None:
    producer = librdkafka.producer(kafka, **more)
    for partition, key in records:
        producer.produce(topic, b"{}", key, partition=partition)
    assert producer.flush(20) == 0


async def test_changed_keys_are_those_between_two_marks(kafka: Kafka, admin: AdminClient, name: str) -> None:
    topic = ensure_topic(admin, name, 2, {"cleanup.policy": "delete"})
    produce(kafka, name, *[(0, f"a{n}") for n in range(5)], *[(1, f"b{n}") for n in range(3)], (1, None))
    read = ChangedKeys(kafka)
    ends = {0: Mark(5), 1: Mark(4)}
    assert await read(name, topic.id, {0: Mark(3), 1: Mark(4)}, ends, 99) == {"a3", "a4"}
    assert await read(name, topic.id, {0: Mark(0), 1: Mark(1, 2)}, {0: Mark(2), 1: Mark(2, 1)}, 99) == {
        "a0",
        "a1",
        "b1",
        "b2",
    }
    assert await read(name, topic.id, ends, ends, 99) == set()
    assert await read(name, topic.id, {0: Mark(0), 1: Mark(0)}, ends, 7) is None, "too many"


async def test_changed_keys_are_none_when_some_may_be_missing(
    kafka: Kafka, admin: AdminClient, name: str
) -> None:
    topic = ensure_topic(admin, name, 1, {"cleanup.policy": "delete"})
    produce(kafka, name, *[(0, f"a{n}") for n in range(6)])
    read = ChangedKeys(kafka)
    assert await read(name, "another-id", {0: Mark(2)}, {0: Mark(6)}, 99) is None, (
        "another topic of this name"
    )
    gone = TopicPartition(name, 0, 3)
    admin.delete_records([gone])[gone].result()
    assert await read(name, topic.id, {0: Mark(2)}, {0: Mark(6)}, 99) is None, "retention took one of them"
    assert await read(name, topic.id, {0: Mark(3)}, {0: Mark(6)}, 99) == {"a3", "a4", "a5"}
    compacted = ensure_topic(admin, f"{name}-compacted", 1, {"cleanup.policy": "compact"})
    produce(kafka, compacted.name, (0, "a"))
    assert await read(compacted.name, compacted.id, {0: Mark(0)}, {0: Mark(1)}, 99) is None


async def test_aborted_records_are_skipped(kafka: Kafka, admin: AdminClient, name: str) -> None:
    topic = ensure_topic(admin, name, 1, {"cleanup.policy": "delete"})
    produce(kafka, name, (0, "a"))
    producer = librdkafka.producer(kafka, transactional_id=name)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, b"{}", "aborted", partition=0)
    producer.flush(20)
    producer.abort_transaction(20)

    async def ends() -> int:
        return topic_offsets.end_offsets(admin, name)[0]

    end = await eventually(ends, lambda found: found > 2)  # a marker stands there
    assert await ChangedKeys(kafka)(name, topic.id, {0: Mark(0)}, {0: Mark(end)}, 99) == {"a"}


async def test_changed_keys_are_none_when_kafka_does_not_answer() -> None:
    away = Kafka(bootstrap_servers="127.0.0.1:9")
    assert await ChangedKeys(away, limit=0.5)("t", "id", {0: Mark(0)}, {0: Mark(1)}, 99) is None
