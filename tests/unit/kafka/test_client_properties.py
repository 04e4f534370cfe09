"""The table of properties, checked against librdkafka."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from distributary.kafka.client_properties import BEYOND_JAVA, PROPERTIES, Handling, Property

PASSED = sorted(
    {row.to for row in PROPERTIES.values() if row.to}
    | {"queue.buffering.max.kbytes", "compression.level", "partitioner", "socket.timeout.ms"}
    | {"sasl.username", "sasl.password", "sasl.oauthbearer.method", "acks", "auto.offset.reset"}
    | {"partition.assignment.strategy", "request.timeout.ms", "ssl.endpoint.identification.algorithm"}
    | {"ssl.keystore.location", "ssl.ca.location"}
)


PASSED_UNCHANGED = (Handling.SAME, Handling.RENAMED, Handling.LIBRDKAFKA)


def refusal(name: str, value: object) -> str:
    """librdkafka's error for a property; "" for none."""
    try:
        Producer({name: value, "log_level": 0})
    except KafkaException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", PASSED)
def test_librdkafka_knows_every_property_it_is_given(name: str) -> None:
    assert "No such configuration property" not in refusal(name, "\x01")


@pytest.mark.parametrize("row", [row for row in PROPERTIES.values() if row.low is not None])
def test_librdkafka_accepts_both_limits(row: Property) -> None:
    for value in (row.low, row.high):
        error = refusal(row.to, value)
        assert "outside allowed range" not in error
        assert "Invalid value" not in error


def test_every_property_that_is_not_passed_on_has_a_reason() -> None:
    for row in PROPERTIES.values():
        assert row.about or row.handling in PASSED_UNCHANGED
        assert bool(row.to) == (row.handling in PASSED_UNCHANGED)
    assert set(PROPERTIES) >= BEYOND_JAVA
