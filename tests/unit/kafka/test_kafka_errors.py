"""Kafka's error codes as our errors. What brokers really answer: tests/integration/secured."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from distributary import errors
from distributary.kafka.kafka_errors import (
    admin_error,
    client_error,
    is_auth_error,
    recovers_by_itself,
    topic_error,
    write_error,
)

CODES = sorted(
    value for name, value in vars(KafkaError).items() if name.lstrip("_").isupper() and isinstance(value, int)
)


@pytest.mark.parametrize("code", CODES)
def test_admin_error_names_what_was_requested(code: int) -> None:
    found = admin_error(KafkaException(KafkaError(code)), "topic t", "a:1")
    assert found.message.startswith("topic t: ")
    assert not found.message.endswith(".")
    if isinstance(found, errors.KafkaUnavailable) or is_auth_error(KafkaError(code)):
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
def test_admin_error_says_what_to_do(code: int, kind: type[errors.DistributaryError], hint: str) -> None:
    found = admin_error(KafkaError(code), "it", "a:1")
    assert type(found) is kind
    assert hint in found.hint


def test_admin_error_hides_a_controllers_request_and_blames_the_topic_when_writing() -> None:
    code = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert "session=" not in str(admin_error(KafkaError(code, "Request Request(session=x)"), "ACLs", "a:1"))
    refused = KafkaError(code, "Failed to acquire idempotence PID")
    assert "--topic" in admin_error(refused, "it", "a:1", writing=True).hint


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._MSG_TIMED_OUT, errors.KafkaUnavailable),
        (KafkaError.NOT_ENOUGH_REPLICAS, errors.KafkaUnavailable),
        (KafkaError.CONCURRENT_TRANSACTIONS, errors.KafkaUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.TopicMissing),
        (KafkaError.MSG_SIZE_TOO_LARGE, errors.RecordRefused),
        (KafkaError._AUTHENTICATION, errors.KafkaRefused),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.KafkaRefused),
        (KafkaError.ILLEGAL_GENERATION, errors.GroupRefused),
        (KafkaError.OFFSET_OUT_OF_RANGE, errors.OffsetMissing),
        (KafkaError._FENCED, errors.ProducerFenced),
        (KafkaError.POLICY_VIOLATION, errors.KafkaClientError),
    ],
)
def test_client_error_says_what_failed_where_why_and_what_to_do(
    code: int, kind: type[errors.DistributaryError]
) -> None:
    found = client_error(KafkaError(code, "own words"), "writing x", "a:1")
    assert type(found) is kind
    assert found.message.startswith("writing x failed at Kafka a:1: ")
    assert "own words" in found.message
    assert found.hint or kind is errors.KafkaClientError


def test_client_error_that_a_retry_may_fix_says_so() -> None:
    for code in (KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.CONCURRENT_TRANSACTIONS):
        found = client_error(KafkaError(code, "own words", retriable=True), "writing x", "a:1")
        assert found.retry
        assert found.hint.startswith("Try again")


def test_client_recovers_from_a_lost_connection_but_not_from_a_large_record() -> None:
    assert recovers_by_itself(KafkaError(KafkaError._TRANSPORT))
    assert not recovers_by_itself(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, errors.KafkaUnavailable),
        (KafkaError._NOENT, errors.KafkaUnavailable),
        (KafkaError._TIMED_OUT, errors.KafkaUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.TopicMissing),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.KafkaRefused),
        (KafkaError.INVALID_REPLICATION_FACTOR, errors.TopicError),
        (KafkaError.POLICY_VIOLATION, errors.TopicError),
    ],
)
def test_topic_error_is_unavailable_missing_refused_or_else_a_topic_error(
    code: int, kind: type[errors.DistributaryError]
) -> None:
    assert type(topic_error(KafkaError(code), "it")) is kind


@pytest.mark.parametrize(
    ("code", "retry"),
    [
        (KafkaError._MSG_TIMED_OUT, True),
        (KafkaError._QUEUE_FULL, True),
        (KafkaError.NOT_ENOUGH_REPLICAS, True),
        (KafkaError.MSG_SIZE_TOO_LARGE, False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
    ],
)
def test_write_error_is_retried_only_when_that_may_help(code: int, retry: bool) -> None:
    found = write_error(KafkaError(code), "a record for topic t")
    assert isinstance(found, errors.KafkaUnavailable if retry else errors.TopicError)
    assert found.retry == retry
    assert found.message.startswith("a record for topic t is not written: ")
