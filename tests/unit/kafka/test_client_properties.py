"""The table of properties, held against librdkafka."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from distributary.kafka.client_properties import BEYOND_JAVA, PROPERTIES, Property

PASSED = sorted(
    {row.to for row in PROPERTIES.values() if row.to}
    | {"queue.buffering.max.kbytes", "compression.level", "partitioner", "socket.timeout.ms"}
    | {"sasl.username", "sasl.password", "sasl.oauthbearer.method", "acks", "auto.offset.reset"}
    | {"partition.assignment.strategy", "request.timeout.ms", "ssl.endpoint.identification.algorithm"}
    | {"ssl.keystore.location", "ssl.ca.location"}
)


def refusal(name: str, value: object) -> str:
    """What librdkafka has against a property; "" when nothing."""
    try:
        Producer({name: value, "log_level": 0})
    except KafkaException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", PASSED)
def test_librdkafka_knows_what_it_is_given(name: str) -> None:
    assert "No such configuration property" not in refusal(name, "\x01")


@pytest.mark.parametrize("row", [row for row in PROPERTIES.values() if row.low is not None])
def test_librdkafka_takes_the_limits(row: Property) -> None:
    for value in (row.low, row.high):
        said = refusal(row.to, value)
        assert "outside allowed range" not in said
        assert "Invalid value" not in said


def test_what_is_left_out_has_a_reason() -> None:
    for row in PROPERTIES.values():
        assert row.about or row.how in ("same", "renamed", "librdkafka")
        assert bool(row.to) == (row.how in ("same", "renamed", "librdkafka"))
    assert set(PROPERTIES) >= BEYOND_JAVA
