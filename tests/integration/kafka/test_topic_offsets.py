"""Topics on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.errors import TopicError, TopicMissing
from distributary.kafka import librdkafka, topic_offsets, topics
from distributary.kafka.topics import delete_topic, ensure_topic, find_topic, list_topics, topic_config

pytestmark = pytest.mark.slow


def produce(kafka: Kafka, topic: str, partition: int, times: list[int]) -> None:
    producer = librdkafka.producer(kafka)
    for at in times:
        producer.produce(topic, b"x", partition=partition, timestamp=at)
    assert producer.flush(20) == 0


def test_topic_is_created_once_and_described(admin: AdminClient, name: str) -> None:
    assert find_topic(admin, name) is None
    topic = ensure_topic(admin, name, 3, {"retention.ms": "1234567"})
    assert topic.partitions == 3
    assert ensure_topic(admin, name, 9) == topic, "an existing topic is left as it is"
    assert topic_config(admin, name)["retention.ms"] == "1234567"
    assert name in list_topics(admin)


def test_deleted_topic_is_gone_though_metadata_lag(
    admin: AdminClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_topic(admin, name, 1)
    before = topics._describe(admin, name)
    stale = [before, before, before]
    describe = topics._describe
    monkeypatch.setattr(topics, "_describe", lambda *args: stale.pop() if stale else describe(*args))
    delete_topic(admin, name)
    assert not stale
    assert find_topic(admin, name) is None


def test_replaced_topic_has_another_id(admin: AdminClient, name: str) -> None:
    first = ensure_topic(admin, name, 1)
    delete_topic(admin, name)
    second = ensure_topic(admin, name, 1)
    assert first.id != second.id
    assert len({first.id, second.id, "None", ""}) == 4


def test_missing_topic_is_named_and_not_created_by_a_lookup(
    kafka: Kafka, admin: AdminClient, name: str
) -> None:
    with pytest.raises(TopicMissing, match=f"no topic {name}"):
        topic_offsets.end_offsets(admin, name)
    producer = librdkafka.producer(kafka, delivery_timeout_ms=1000)
    producer.produce(name, b"x")
    producer.flush(5)
    assert find_topic(admin, name) is None
    delete_topic(admin, name)


def test_invalid_topic_name_raises_with_the_reason(admin: AdminClient) -> None:
    with pytest.raises(TopicError, match="bad name!"):
        ensure_topic(admin, "bad name!", 1)


def test_offsets_are_read_at_both_ends_and_by_time(kafka: Kafka, admin: AdminClient, name: str) -> None:
    ensure_topic(admin, name, 2)
    produce(kafka, name, 0, [1000, 2000, 3000])
    assert topic_offsets.earliest_offsets(admin, name) == {0: 0, 1: 0}
    assert topic_offsets.end_offsets(admin, name) == {0: 3, 1: 0}
    assert topic_offsets.offsets_at(admin, name, 1500) == {0: 1, 1: 0}
    assert topic_offsets.offsets_at(admin, name, 9999) == {0: 3, 1: 0}, "the end where nothing is so late"


def test_offsets_of_a_new_topic_are_read(admin: AdminClient, name: str) -> None:
    """Its partitions have no leader at first, and that is waited for."""
    for at in range(3):
        ensure_topic(admin, f"{name}-{at}", 12)
        assert topic_offsets.end_offsets(admin, f"{name}-{at}") == dict.fromkeys(range(12), 0)
