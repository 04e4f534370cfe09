"""The Java client's properties, translated for librdkafka."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.config.coerce import Faults
from distributary.kafka.client_properties import PROPERTIES, Side
from distributary.kafka.property_translation import Translated, translate

JAVA = "org.apache.kafka.clients."


@pytest.mark.parametrize(
    ("side", "java", "expected"),
    [
        ("producer", {"acks": -1}, {"acks": "-1"}),
        ("producer", {"acks": "ALL"}, {"acks": "all"}),
        ("producer", {"linger.ms": "5", "batch.size": 0}, {"linger.ms": "5", "batch.size": "1"}),
        ("producer", {"buffer.memory": 33554432}, {"queue.buffering.max.kbytes": "32768"}),
        ("producer", {"max.request.size": 5}, {"message.max.bytes": "1000"}),
        ("producer", {"compression.type": "zstd", "compression.zstd.level": 22}, {"compression.level": "12"}),
        ("producer", {"compression.type": "lz4", "compression.gzip.level": 5}, {}),
        ("producer", {"partitioner.ignore.keys": "True"}, {"partitioner": "random"}),
        ("producer", {"request.timeout.ms": 5}, {"request.timeout.ms": "5"}),
        ("consumer", {"request.timeout.ms": 5}, {"socket.timeout.ms": "10"}),
        ("consumer", {"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
        ("consumer", {"auto.offset.reset": "smallest"}, {"auto.offset.reset": "earliest"}),
        ("consumer", {"max.poll.interval.ms": 2**31 - 1}, {"max.poll.interval.ms": "86400000"}),
        ("consumer", {"metadata.max.age.ms": 500}, {"topic.metadata.refresh.interval.ms": "500"}),
        ("consumer", {"send.buffer.bytes": -1}, {"socket.send.buffer.bytes": "0"}),
        (
            "consumer",
            {"partition.assignment.strategy": [f"{JAVA}consumer.RangeAssignor", "roundrobin"]},
            {"partition.assignment.strategy": "range,roundrobin"},
        ),
        (
            "consumer",
            {"partition.assignment.strategy": f"{JAVA}consumer.CooperativeStickyAssignor, range"},
            {"partition.assignment.strategy": "cooperative-sticky"},
        ),
        (
            "both",
            {"sasl.jaas.config": 'org.X required clientId=\'c\' clientSecret="s" scope="a b";'},
            {
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "a b",
                "sasl.oauthbearer.method": "oidc",
            },
        ),
        (
            "both",
            {"ssl.keystore.location": "/k.pem", "ssl.keystore.type": "PEM"},
            {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem"},
        ),
        ("both", {"ssl.keystore.location": "/k.jks", "ssl.keystore.type": "JKS"}, {}),
        ("both", {"socket.keepalive.enable": True}, {"socket.keepalive.enable": "true"}),
        ("both", {"client.id": None}, {}),
        ("producer", {"group.id": "g"}, {}),
    ],
)
def test_values_are_translated_for_librdkafka(
    side: Side, java: dict[str, Any], expected: dict[str, str]
) -> None:
    found = translate(java, side).librdkafka
    found.pop("compression.type", None)
    assert found == expected


def test_ignored_properties_are_logged_with_the_reason() -> None:
    properties = {
        "key.serializer": "x",
        "group.id": "g",
        "partitioner.class": "com.example.Own",
        "max.in.flight.requests.per.connection": 0,
    }
    lines = [line for _, line in translate(properties, "producer").messages]
    assert any("key.serializer is ignored: keys and values are bytes" in line for line in lines)
    assert any("group.id is ignored: only a consumer has it" in line for line in lines)
    assert any("partitioner.class is ignored" in line and "murmur2" in line for line in lines)
    assert any("is 1 instead of 0" in line for line in lines)


def test_round_robin_partitioner_is_our_own() -> None:
    found = translate({"partitioner.class": f"{JAVA}producer.RoundRobinPartitioner"}, "producer")
    assert (found.own, found.librdkafka, found.messages) == ({"round.robin": True}, {}, [])


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ({"linger.ms": "soon"}, 'expected an integer, got the string "soon"'),
        ({"linger.ms": 1.5}, "expected an integer, got 1.5"),
        ({"linger.ms": True}, "expected an integer, got true"),
        ({"linger.ms": -1}, "expected 0 or more, got -1"),
        ({"enable.idempotence": "maybe"}, "expected true or false"),
        ({"client.id": {"a": 1}}, "expected a string, got an object"),
        ({"interceptor.classes": [1]}, "expected a list of strings"),
        ({"acks": 2}, 'expected all, 1 or 0, got "2"'),
        ({"sasl.jaas.config": False}, "expected a string, got false"),
        ({"debug": []}, "expected a string, a number"),
    ],
)
def test_value_of_the_wrong_type_is_named(java: dict[str, Any], message: str) -> None:
    with pytest.raises(Faults) as caught:
        translate(java, "producer")
    assert caught.value.entries[0][0] == next(iter(java))
    assert message in caught.value.entries[0][1]


def test_invalid_secret_is_not_shown() -> None:
    with pytest.raises(Faults) as caught:
        translate({"ssl.key.password": ["hunter2"], "sasl.password": {"x": "hunter2"}})
    assert "hunter2" not in str(caught.value)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.lists(st.text())
)


@given(
    st.dictionaries(st.sampled_from(sorted(PROPERTIES)), VALUES),
    st.sampled_from(["producer", "consumer", "both"]),
)
def test_any_properties_are_translated_to_strings_or_refused(java: dict[str, Any], side: Side) -> None:
    faults: list[tuple[str, str]] = []
    found = Translated({}, {}, [])
    try:
        found = translate(java, side)
    except Faults as refused:
        faults = refused.entries
    assert {name for name, _ in faults} <= set(java)
    assert all(isinstance(value, str) for value in found.librdkafka.values())
    assert all(level in (logging.INFO, logging.WARNING) for level, _ in found.messages)
    for name, value in found.librdkafka.items():
        row = PROPERTIES.get(name)
        if row and row.low is not None and row.high is not None and row.to == name and name in java:
            assert row.low <= int(value) <= row.high
