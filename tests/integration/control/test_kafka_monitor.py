"""What the monitor sees of a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from tests.support.broker import RunningBroker
from tests.support.clock import LIMIT

from distributary.control.kafka_monitor import KafkaMonitor
from distributary.kafka import librdkafka
from distributary.kafka.topics import ensure_topic

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path)
    running.start()
    yield running
    running.stop()


def test_monitor_reads_offsets_and_survives_a_hanging_broker(broker: RunningBroker) -> None:
    eye, admin = KafkaMonitor(broker.kafka), librdkafka.admin(broker.kafka)
    ensure_topic(admin, "odds", 2)
    producer = librdkafka.producer(broker.kafka)
    for n in range(5):
        producer.produce("odds", b"{}", partition=0, timestamp=1_000 + n)
    producer.flush()
    seen = eye.observe({"odds", "not-there"})
    assert (dict(seen.ends), dict(seen.first)) == ({"odds": {0: 5, 1: 0}}, {"odds": {0: 0, 1: 0}})
    assert (seen.leaderless, seen.under_replicated) == ((), ())
    assert eye.next_records("odds", {0: 3, 1: 0}) == {0: (0, 3, 1_003), 1: None}
    assert eye.next_records("odds", {0: 5}) == {0: None}

    # What ends a transaction has an offset, but is no record.
    writer = librdkafka.producer(broker.kafka, transactional_id="t")
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce("odds", b"{}", partition=1)
    writer.commit_transaction(20)
    deadline = time.monotonic() + 20 * LIMIT
    while (ends := eye.observe({"odds"}).ends["odds"]) != {0: 5, 1: 2}:  # its end is written a moment later
        assert time.monotonic() < deadline, ends
    assert eye.next_records("odds", {1: 1}) == {1: None}

    broker.pause()
    began = time.monotonic()
    try:
        with pytest.raises(KafkaException):
            eye.observe({"odds"})
    finally:
        broker.resume()
    assert time.monotonic() - began < 4 * LIMIT


def test_broker_that_hangs_between_two_responses_is_reported(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    eye, admin = KafkaMonitor(broker.kafka), librdkafka.admin(broker.kafka)
    ensure_topic(admin, "odds", 2)
    assert eye.observe({"odds"}).ends == {"odds": {0: 0, 1: 0}}
    described = admin.list_topics(timeout=10)
    monkeypatch.setattr(eye._admin, "list_topics", lambda timeout: described)
    broker.pause()
    try:
        with pytest.raises(KafkaException):
            eye.observe({"odds"})
    finally:
        broker.resume()
