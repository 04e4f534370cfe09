"""Kafka's answers as errors. What brokers really answer: tests/integration/secured."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from distributary import errors
from distributary.kafka.kafka_errors import barred, named

CODES = sorted(
    value for name, value in vars(KafkaError).items() if name.lstrip("_").isupper() and isinstance(value, int)
)


@pytest.mark.parametrize("code", CODES)
def test_every_answer_says_what_was_asked(code: int) -> None:
    found = named(KafkaException(KafkaError(code)), "topic t", "a:1")
    assert found.message.startswith("topic t: ")
    assert not found.message.endswith(".")
    if isinstance(found, errors.KafkaUnavailable) or barred(KafkaError(code)):
        assert "a:1" in found.message
        assert found.hint


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (KafkaError._MSG_TIMED_OUT, errors.KafkaUnavailable, "Check that it runs"),
        (KafkaError._AUTHENTICATION, errors.KafkaRefused, "sasl.jaas.config"),
        (KafkaError._SSL, errors.KafkaRefused, "ssl.truststore.location"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.KafkaRefused, "--topic TOPIC"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, errors.KafkaRefused, "--group GROUP"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, errors.KafkaRefused, "--cluster"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, errors.KafkaRefused, "--transactional-id"),
        (KafkaError.NON_EMPTY_GROUP, errors.GroupBusy, "groups describe"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.TopicMissing, "topics list"),
        (KafkaError.MSG_SIZE_TOO_LARGE, errors.KafkaRefused, "max.message.bytes"),
        (KafkaError.OFFSET_OUT_OF_RANGE, errors.KafkaRefused, "topics describe"),
    ],
)
def test_what_to_do(code: int, kind: type[errors.DistributaryError], hint: str) -> None:
    found = named(KafkaError(code), "it", "a:1")
    assert type(found) is kind
    assert hint in found.hint


def test_a_controllers_request_is_not_shown_and_a_writers_refusal_is_about_writing() -> None:
    code = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert "session=" not in str(named(KafkaError(code, "Request Request(session=x)"), "the ACLs", "a:1"))
    assert "--topic" in named(KafkaError(code, "Failed to acquire idempotence PID"), "it", "a:1").hint
