"""The Java client's properties, given to librdkafka."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaException, Producer

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka


def test_the_address_comes_from_the_setting_and_further_properties_pass_through() -> None:
    kafka = Kafka(bootstrap_servers="a:1,b:2", properties={"security.protocol": "SSL", "client.id": "x"})
    assert librdkafka.properties(kafka, linger_ms=0) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SSL",
        "client.id": "x",
        "linger.ms": 0,
    }


@pytest.mark.parametrize(
    ("java", "ours"),
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
def test_names_are_translated_or_left_out(java: dict[str, str], ours: dict[str, str]) -> None:
    assert librdkafka.translate(java) == ours


def test_a_jaas_line_gives_name_and_password() -> None:
    line = r"""org.apache.kafka.X.ScramLoginModule required username='me' password="a\"b;c";"""
    assert librdkafka.translate({"sasl.jaas.config": line}) == {
        "sasl.username": "me",
        "sasl.password": 'a"b;c',
    }


def test_an_unknown_property_is_left_out_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka(bootstrap_servers="127.0.0.1:1", properties={"no.such.thing": "1", "linger.ms": "7"})
    with caplog.at_level(logging.WARNING):
        assert librdkafka.producer(kafka) is not None
    assert "no.such.thing is ignored" in caplog.text


def test_a_wrong_value_is_not_swallowed() -> None:
    with pytest.raises(KafkaException, match="acks"):
        librdkafka.make(Producer, {"acks": "perhaps"})


def test_nothing_is_written_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    made = librdkafka.producer(Kafka(bootstrap_servers="127.0.0.1:1"))
    made.poll(0.3)
    assert capfd.readouterr().err == ""
