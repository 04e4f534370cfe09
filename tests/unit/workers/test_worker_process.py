"""What a worker is to do, as the configurations of its clients."""

from __future__ import annotations

import msgspec

from distributary.client.configuration import read_configuration
from distributary.workers.worker_process import WorkerSpec

SPEC = WorkerSpec(
    function="m:f",
    topic="shop.orders",
    group="shop.charge",
    properties={"bootstrap.servers": "h:1"},
    slot=2,
    owner="o",
)


def test_at_least_once_reads_one_record_at_a_time() -> None:
    consumer = read_configuration(SPEC.consumer(), "consumer")
    assert consumer.own["max.poll.records"] == 1
    assert consumer.librdkafka["enable.auto.commit"] == "false"
    assert consumer.librdkafka["partition.assignment.strategy"] == "cooperative-sticky"
    assert consumer.librdkafka["client.id"] == "shop-charge-2"
    assert read_configuration(SPEC.producer(), "producer").own["producer.type"] == "async"


def test_transactional_id_is_that_of_the_slot() -> None:
    spec = msgspec.structs.replace(SPEC, exactly_once=True)
    producer = read_configuration(spec.producer(), "producer")
    assert producer.librdkafka["transactional.id"] == "shop.charge.o.2"


def test_spec_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SPEC), type=WorkerSpec) == SPEC
