"""What Kafka says, said so that one can do something."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from distributary import errors
from distributary.client.kafka_failures import Trouble, named, waits


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
def test_each_says_what_where_why_and_what_to_do(code: int, kind: type[errors.DistributaryError]) -> None:
    found = named(KafkaError(code, "own words"), "writing x", "a:1")
    assert type(found) is kind
    assert found.message.startswith("writing x failed at Kafka a:1: ")
    assert "own words" in found.message
    assert found.hint or kind is errors.KafkaClientError


def test_error_that_a_retry_may_mend_says_so() -> None:
    for code in (KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.CONCURRENT_TRANSACTIONS):
        found = named(KafkaError(code, "own words", retriable=True), "writing x", "a:1")
        assert found.retry
        assert found.hint.startswith("Try again")


def test_what_no_waiting_mends_is_told_from_what_may_pass() -> None:
    trouble = Trouble()
    trouble(KafkaError(KafkaError._TRANSPORT, "refused by a:1"))
    trouble(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert trouble.refused("x", "a:1") is None
    assert "within 2 s (refused by a:1)" in str(trouble.away("connecting", "a:1", 2))
    trouble(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    assert isinstance(trouble.refused("x", "a:1"), errors.KafkaRefused)
    assert waits(KafkaError(KafkaError._TRANSPORT))
    assert not waits(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
