"""What a worker is told, as its clients' configurations."""

from __future__ import annotations

import msgspec

from distributary.client.configuration import read_configuration
from distributary.workers.worker_spec import Spec

SPEC = Spec("m:f", "shop.orders", "shop.charge", {"bootstrap.servers": "h:1"}, slot=2, owner="o")


def test_at_least_once_has_one_record_in_hand() -> None:
    consumer = read_configuration(SPEC.consumer(), "consumer")
    assert consumer.ours["max.poll.records"] == 1
    assert consumer.librdkafka["enable.auto.commit"] == "false"
    assert consumer.librdkafka["partition.assignment.strategy"] == "cooperative-sticky"
    assert consumer.librdkafka["client.id"] == "shop-charge-2"
    assert read_configuration(SPEC.producer(), "producer").ours["producer.type"] == "async"


def test_exactly_once_has_a_transactional_id_of_its_place() -> None:
    spec = msgspec.structs.replace(SPEC, exactly_once=True)
    producer = read_configuration(spec.producer(), "producer")
    assert producer.librdkafka["transactional.id"] == "shop.charge.o.2"


def test_it_goes_through_a_pipe() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SPEC), type=Spec) == SPEC
