"""Single records, read again from a real topic."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka
from distributary.kafka.record_lookup import RecordLookup
from distributary.kafka.topics import ensure_topic

pytestmark = pytest.mark.slow


def produce(kafka: Kafka, topic: str, count: int, partition: int = 0) -> None:
    producer = librdkafka.producer(kafka)
    for n in range(count):
        producer.produce(topic, str(n).encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(20 * LIMIT) == 0


def values(lookup: RecordLookup, wanted: dict[int, list[int]]) -> dict[tuple[int, int], bytes | None]:
    return {position: message.value() for position, message in lookup.read(wanted).items()}


def test_hundreds_of_records_are_read_in_one_pass(kafka: Kafka, admin: AdminClient, name: str) -> None:
    ensure_topic(admin, name, 2)
    produce(kafka, name, 10_000, 0)
    produce(kafka, name, 300, 1)
    wanted = {0: [*range(0, 200), 9_000, 9_999], 1: list(range(300))}
    lookup = RecordLookup(kafka, name)
    began = time.monotonic()
    found = values(lookup, wanted)
    again = values(lookup, {1: [7]})
    took = time.monotonic() - began
    lookup.close()
    assert found == {(p, o): str(o).encode() for p, offsets in wanted.items() for o in offsets}
    assert again == {(1, 7): b"7"}
    assert took < 5 * LIMIT, f"{took:.1f} s for 503 records: as if each waited for a fetch of its own"


def test_missing_records_are_left_out(kafka: Kafka, admin: AdminClient, name: str) -> None:
    ensure_topic(admin, name, 2)
    produce(kafka, name, 10)
    gone = TopicPartition(name, 0, 5)
    admin.delete_records([gone])[gone].result()
    lookup = RecordLookup(kafka, name)
    assert values(lookup, {0: [3, 4]}) == {}, "retention took them"
    assert values(lookup, {0: [4, 5, 9]}) == {(0, 5): b"5", (0, 9): b"9"}
    assert values(lookup, {0: [8, 10, 99], 1: [0]}) == {(0, 8): b"8"}, "the log ends before them"
    assert values(lookup, {0: [99]}) == {}
    assert values(lookup, {0: []}) == {}
    lookup.close()


def test_aborted_records_are_read_only_on_request(kafka: Kafka, admin: AdminClient, name: str) -> None:
    ensure_topic(admin, name, 1)
    writer = librdkafka.producer(kafka, transactional_id=name)
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(name, b"aborted", partition=0)
    writer.flush(20)
    writer.abort_transaction(20)
    produce(kafka, name, 1)
    committed, everything = RecordLookup(kafka, name), RecordLookup(kafka, name, committed=False)
    assert values(committed, {0: [0, 2]}) == {(0, 2): b"0"}
    assert values(everything, {0: [0, 2]}) == {(0, 0): b"aborted", (0, 2): b"0"}
    committed.close()
    everything.close()


def test_next_record_of_each_partition_is_found(kafka: Kafka, admin: AdminClient, name: str) -> None:
    ensure_topic(admin, name, 3)
    produce(kafka, name, 10, 0)
    produce(kafka, name, 10, 1)
    gone = TopicPartition(name, 1, 5)
    admin.delete_records([gone])[gone].result()
    lookup = RecordLookup(kafka, name)
    found = lookup.next_records({0: 7, 1: 2, 2: 0})
    assert {p: message.offset() for p, message in found.items()} == {0: 7, 1: 5}
    assert lookup.next_records({0: 10}) == {}
    assert lookup.next_records({}) == {}
    lookup.close()


def test_lookup_raises_in_time_when_kafka_does_not_answer() -> None:
    lookup = RecordLookup(Kafka(bootstrap_servers=f"127.0.0.1:{free_port()}"), "t")
    with pytest.raises(KafkaException):
        lookup.read({0: [1]}, limit=1.0)
