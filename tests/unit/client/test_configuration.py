"""The client configuration, read and checked."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.client.configuration import read_configuration, router_of
from distributary.errors import ConfigError, ConfigMissing
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import RecordRouter

EXAMPLE = """
{"Type": "KafkaProducerConfig",
 "Properties": {"bootstrap.servers": "localhost:9092", "acks": "all", "retries": 0, "batch.size": 16384,
                "linger.ms": 1}}
"""


def producer(**properties: Any) -> dict[str, Any]:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return {"Type": "KafkaProducerConfig", "Properties": {"bootstrap.servers": "a:9092", **names}}


def test_string_file_and_dict_give_the_same_configuration(tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    path.write_text(EXAMPLE)
    found = [
        read_configuration(source, "producer") for source in (EXAMPLE, path, str(path), json.loads(EXAMPLE))
    ]
    for one in found:
        assert one.librdkafka == {
            "bootstrap.servers": "localhost:9092",
            "acks": "all",
            "retries": "0",
            "batch.size": "16384",
            "linger.ms": "1",
            "delivery.timeout.ms": "120000",
            "partitioner": "murmur2_random",
            "enable.idempotence": "false",  # as in Java, which cannot have it without retries
        }
        assert one.java()["linger.ms"] == "1"
    assert found[1].folder == tmp_path


def test_repeated_property_is_a_warning_and_the_last_one_is_used(caplog: pytest.LogCaptureFixture) -> None:
    text = EXAMPLE.replace('"linger.ms": 1', '"linger.ms": 1, "linger.ms": 7')
    with caplog.at_level(logging.WARNING):
        assert read_configuration(text, "producer").librdkafka["linger.ms"] == "7"
    assert "linger.ms is given twice in the configuration: the last one is used" in caplog.text


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("linger.msec", "linger.ms"),
        ("Compression-Type", "compression.type"),
        ("queue.buffering.max.message", "queue.buffering.max.messages"),
    ],
)
def test_misspelt_property_is_refused_with_the_nearest_name(written: str, near: str) -> None:
    config = producer()
    config["Properties"][written] = "x"
    with pytest.raises(ConfigError) as caught:
        read_configuration(config, "producer")
    assert f'Properties.{written}: unknown Kafka client property (did you mean "{near}"?)' in str(
        caught.value
    )


INVALID: list[tuple[Any, str, str]] = [
    ("{", "producer", "the configuration:1: not valid JSON"),
    ('{"Type": 1, // this\n}', "producer", "the configuration:1: not valid JSON: comments are not allowed"),
    ('{\n# this\n"Type": 1}', "producer", "the configuration:2: not valid JSON: comments are not allowed"),
    ("{" * 100_000, "producer", "not valid JSON"),
    ('{"Type":' * 100_000, "producer", "nested too deeply"),
    (json.loads(EXAMPLE), "consumer", 'Type: expected "KafkaConsumerConfig", got "KafkaProducerConfig"'),
    ({"Type": "KafkaProducerConfig"}, "producer", "Properties: missing"),
    ({"Type": "KafkaProducerConfig", "Properties": []}, "producer", "Properties: missing"),
    ({**producer(), "Propertys": {}}, "producer", "Propertys: unknown part"),
    ({**producer(), "Topics": []}, "producer", "Topics: expected an object"),
    (
        producer(bootstrap_servers="nowhere"),
        "producer",
        'bootstrap.servers: expected addresses such as "host:9092"',
    ),
    (producer(bootstrap_servers=None), "producer", "bootstrap.servers: missing"),
    (producer(linger_ms="soon"), "producer", 'linger.ms: expected an integer, got the string "soon"'),
    (producer(producer_type="slow"), "producer", "producer.type: expected sync or async"),
    (
        producer(enable_idempotence=True, acks=1),
        "producer",
        "acks: enable.idempotence and transactions require",
    ),
    (
        producer(transactional_id="t", retries=0),
        "producer",
        "retries: enable.idempotence and transactions require",
    ),
    (
        {"Type": "KafkaConsumerConfig", "Properties": {"bootstrap.servers": "a:1"}},
        "consumer",
        "group.id: missing; a consumer is a member of a group",
    ),
]


@pytest.mark.parametrize(("source", "kind", "message"), INVALID)
def test_invalid_configuration_is_refused_by_name(source: Any, kind: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_configuration(source, kind)
    assert message in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_configuration({"Type": "X", "Properties": {"a.b": 1, "linger.ms": "x"}}, "producer")
    assert [problem.key for problem in caught.value.problems] == [
        "Type",
        "Properties.a.b",
        "Properties.linger.ms",
    ]


def test_missing_or_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigMissing, match=r"client configuration .*none\.json not found"):
        read_configuration(tmp_path / "none.json", "producer")
    (tmp_path / "bytes").write_bytes(b"{\xff}")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_configuration(tmp_path / "bytes", "producer")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ConfigError, match="expected an object"):
        read_configuration(tmp_path / "list.json", "producer")


def test_printed_configuration_shows_no_secret() -> None:
    line = 'org.X required username="me" password="hunter2";'
    found = read_configuration(producer(sasl_jaas_config=line, ssl_key_password="hunter2"), "producer")
    assert found.librdkafka["sasl.password"] == "hunter2"
    assert "hunter2" not in str(found) + repr(found) + str(found.messages)


@pytest.mark.parametrize(
    ("properties", "on"),
    [({}, "true"), ({"acks": 1}, "false"), ({"max.in.flight.requests.per.connection": 6}, "false")],
)
def test_idempotence_is_on_unless_a_property_excludes_it(properties: dict[str, Any], on: str) -> None:
    assert read_configuration(producer(**properties), "producer").librdkafka["enable.idempotence"] == on


def test_values_that_only_java_allows_are_adjusted() -> None:
    found = read_configuration(producer(transactional_id="t"), "producer")
    assert found.librdkafka["delivery.timeout.ms"] == "60000"
    properties = {"bootstrap.servers": "a:1", "group.id": "g", "fetch.max.bytes": 5}
    consumer = read_configuration({"Type": "KafkaConsumerConfig", "Properties": properties}, "consumer")
    assert consumer.librdkafka["fetch.max.bytes"] == consumer.librdkafka["message.max.bytes"] == "1000"
    assert consumer.librdkafka["isolation.level"] == "read_committed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["Type", "Properties", "Topics", "x"]), JSON)
    | st.text().map(lambda t: "{" + t)
)
def test_any_other_json_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError):
        read_configuration(source, "producer")


PRICE = {"Type": "JSON", "Definition": {"properties": {"price": {"type": "number"}}}}


def router_for(topics: dict[str, Any]) -> RecordRouter:
    properties = {"bootstrap.servers": "a:1"}
    return router_of(
        read_configuration(
            {"Type": "KafkaProducerConfig", "Properties": properties, "Topics": topics}, "producer"
        )
    )


def test_record_without_rules_is_unchanged() -> None:
    one = OutgoingRecord("t", b"x", b"k", 3)
    assert router_for({}).route(one) is one
    assert router_for({"other": {}}).route(one) is one


def test_first_matching_route_chooses_the_topic() -> None:
    routes = [
        {"Where": "price > 100", "Topic": "large"},
        {"Where": "price > 10 or kind = 'x'", "Topic": "middle"},
        {"Where": "missing is null and price < 0", "Topic": "odd"},
    ]
    route = router_for({"t": {"Routes": routes}}).route
    for value, topic in (
        (b'{"price": 101}', "large"),
        (b'{"price": 11}', "middle"),
        (b'{"kind": "x"}', "middle"),
        (b'{"price": -1}', "odd"),
        (b'{"price": 1}', "t"),
        (b'{"price": "101"}', "t"),
        (b"not JSON", "t"),
        (None, "t"),
    ):
        found = route(OutgoingRecord("t", value, partition=2))
        assert found.topic == topic
        assert found.partition == (2 if topic == "t" else -1)


def test_record_that_fails_its_schema_becomes_a_dead_letter_with_the_reason() -> None:
    one = OutgoingRecord("t", b'{"price": "x"}', b"k", 2, (("h", b"1"),), 7)
    dead_letter = router_for({"t": {"Schema": PRICE, "DeadLetters": "bad"}}).route(one)
    assert dead_letter.topic == "bad"
    assert dead_letter.partition == -1
    assert dead_letter.value == one.value
    assert "$.price" in dead_letter.reason
    assert dict(dead_letter.headers) == {
        "distributary-reason": dead_letter.reason,
        "distributary-topic": "t",
        "distributary-key": b"k",
        "distributary-timestamp": "7",
        "h": b"1",
    }
    assert router_for({"t": {"Schema": PRICE}}).route(one).topic == "t.dead-letters"


def test_schema_of_the_target_topic_applies_too() -> None:
    rules = {"t": {"Routes": [{"Where": "a = 1", "Topic": "u"}]}, "u": {"Schema": PRICE}}
    assert router_for(rules).route(OutgoingRecord("t", b'{"a": 1, "price": 2}')).topic == "u"
    dead_letter = router_for(rules).route(OutgoingRecord("t", b'{"a": 1, "price": "x"}'))
    assert dead_letter.topic == "u.dead-letters"
    assert ("distributary-topic", "u") in dead_letter.headers


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ({"t": 1}, "Topics.t: expected an object"),
        (
            {"t": {"Scheme": {}}},
            "Topics.t.Scheme: unknown part (there are Schema, Routes, DeadLetters) (did you",
        ),
        ({"t": {"Schema": "x"}}, "Topics.t.Schema: expected an object"),
        ({"t": {"Schema": {"Type": "JSON"}}}, "Topics.t.Schema: expected either"),
        ({"t": {"Routes": {}}}, "Topics.t.Routes: expected a list"),
        ({"t": {"Routes": [{"Where": "a = 1"}]}}, "Topics.t.Routes.0: expected Where and Topic"),
        ({"t": {"Routes": [{"Where": "a ==", "Topic": "u"}]}}, "Topics.t.Routes.0.Where: "),
        ({"t": {"Routes": [{"Where": "a = 1", "Topic": "no name!"}]}}, "Topics.t.Routes.0.Topic: expected"),
        ({"t": {"DeadLetters": 5}}, "Topics.t.DeadLetters: expected a Kafka topic"),
    ],
)
def test_invalid_rules_are_refused_by_name(topics: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        router_for(topics)
    assert message in str(caught.value)
