from __future__ import annotations

from typing import Any

import pytest

from distributary.client.configuration import read_configuration
from distributary.client.topic_rules import router_of
from distributary.errors import ConfigError
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import RecordRouter

PRICE = {"Type": "JSON", "Definition": {"properties": {"price": {"type": "number"}}}}


def router(topics: dict[str, Any]) -> RecordRouter:
    properties = {"bootstrap.servers": "a:1"}
    return router_of(
        read_configuration(
            {"Type": "KafkaProducerConfig", "Properties": properties, "Topics": topics}, "producer"
        )
    )


def test_record_without_rules_is_unchanged() -> None:
    one = OutgoingRecord("t", b"x", b"k", 3)
    assert router({}).route(one) is one
    assert router({"other": {}}).route(one) is one


def test_first_matching_route_chooses_the_topic() -> None:
    routes = [
        {"Where": "price > 100", "Topic": "large"},
        {"Where": "price > 10 or kind = 'x'", "Topic": "middle"},
        {"Where": "missing is null and price < 0", "Topic": "odd"},
    ]
    route = router({"t": {"Routes": routes}}).route
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
    dead_letter = router({"t": {"Schema": PRICE, "DeadLetters": "bad"}}).route(one)
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
    assert router({"t": {"Schema": PRICE}}).route(one).topic == "t.dead-letters"


def test_schema_of_the_target_topic_applies_too() -> None:
    rules = {"t": {"Routes": [{"Where": "a = 1", "Topic": "u"}]}, "u": {"Schema": PRICE}}
    assert router(rules).route(OutgoingRecord("t", b'{"a": 1, "price": 2}')).topic == "u"
    dead_letter = router(rules).route(OutgoingRecord("t", b'{"a": 1, "price": "x"}'))
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
        router(topics)
    assert message in str(caught.value)
