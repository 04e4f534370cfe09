from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaException, Producer

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka


def test_properties_have_the_configured_servers_and_the_callers_own() -> None:
    kafka = Kafka(bootstrap_servers="a:1,b:2", properties={"security.protocol": "SSL", "client.id": "x"})
    assert librdkafka.properties(kafka, linger_ms=0) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SSL",
        "client.id": "x",
        "linger.ms": 0,
    }


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        ({"ssl.truststore.location": "/ca.jks", "ssl.truststore.type": "JKS"}, {}),
        ({"ssl.truststore.certificates": "PEM"}, {"ssl.ca.pem": "PEM"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"fetch.max.wait.ms": "5"}, {"fetch.wait.max.ms": "5"}),
        ({"key.serializer": "x", "value.deserializer": "x", "max.poll.records": "1"}, {}),
        ({"sasl.mechanism": "PLAIN"}, {"sasl.mechanism": "PLAIN"}),
    ],
)
def test_java_names_are_translated_or_ignored(java: dict[str, str], expected: dict[str, str]) -> None:
    assert librdkafka.translate_properties(java) == expected


def test_jaas_line_becomes_user_name_and_password() -> None:
    line = r"""org.apache.kafka.X.ScramLoginModule required username='me' password="a\"b;c";"""
    assert librdkafka.translate_properties({"sasl.jaas.config": line}) == {
        "sasl.username": "me",
        "sasl.password": 'a"b;c',
    }


def test_unknown_property_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka(bootstrap_servers="127.0.0.1:1", properties={"no.such.thing": "1", "linger.ms": "7"})
    with caplog.at_level(logging.WARNING):
        assert librdkafka.producer(kafka) is not None
    assert "no.such.thing is ignored" in caplog.text


def test_invalid_value_raises() -> None:
    with pytest.raises(KafkaException, match="acks"):
        librdkafka.create(Producer, {"acks": "perhaps"})


def test_client_writes_nothing_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    producer = librdkafka.producer(Kafka(bootstrap_servers="127.0.0.1:1"))
    producer.poll(0.3)
    assert capfd.readouterr().err == ""
