"""The producer sends on time, drops nothing, and sends no burst after a pause."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

from distributary.demo.demo_producer import KafkaSender, play
from distributary.demo.sportsbook import Event
from distributary.kafka.record_producer import RecordProducer

EVENT = Event("topic", "key", {"price": Decimal("2.50")})


class Clock:
    """Time that passes only when it is waited for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ends = float("inf")

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.ends


def test_each_event_is_sent_at_its_time() -> None:
    clock, sent = Clock(), []
    timed = [(0.0, EVENT), (0.5, EVENT), (0.0, EVENT), (0.25, EVENT)]
    assert play(timed, lambda event: sent.append(clock.now), clock.wait, clock) == 4
    assert sent == [100.0, 100.5, 100.5, 100.75]


def test_tiny_waits_are_accumulated() -> None:
    clock, sent = Clock(), []
    play([(0.0004, EVENT)] * 1000, lambda event: sent.append(clock.now), clock.wait, clock)
    assert 100.39 < sent[-1] <= 100.4


def test_play_stops_when_wait_returns_true() -> None:
    clock, sent = Clock(), []
    clock.ends = 102.5
    assert play([(1.0, EVENT)] * 10, lambda event: sent.append(clock.now), clock.wait, clock) == 2
    assert sent == [101.0, 102.0]


def test_delayed_sender_causes_no_burst() -> None:
    clock, sent = Clock(), []

    def send(event: Event) -> None:
        sent.append(clock.now)
        if len(sent) == 2:
            clock.now += 60.0  # Kafka was away

    play([(1.0, EVENT)] * 5, send, clock.wait, clock)
    assert sent == [101.0, 102.0, 162.0, 163.0, 164.0]


class FakeKafka:
    """A librdkafka producer whose queue is full for the first calls."""

    def __init__(self, full: int = 0) -> None:
        self.full = full
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.polls: list[float] = []
        self.unsent = 0
        self.flushes: list[float] = []

    def produce(self, topic: str, value: bytes | None, key: bytes, **record: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        self.records.append((topic, {"value": value, "key": key, **record}))

    def poll(self, seconds: float) -> int:
        self.polls.append(seconds)
        return 0

    def __len__(self) -> int:
        return 0

    def flush(self, seconds: float) -> int:
        self.flushes.append(seconds)
        return self.unsent


def test_record_has_key_exact_value_and_time() -> None:
    kafka: Any = FakeKafka()
    KafkaSender(RecordProducer(kafka))(EVENT)
    ((topic, record),) = kafka.records
    assert (topic, record["key"], record["value"]) == ("topic", b"key", b'{"price":2.50}')
    assert record["timestamp"] > 1_700_000_000_000
    json.loads(record["value"])


def test_row_is_removed_by_a_record_without_value() -> None:
    kafka: Any = FakeKafka()
    KafkaSender(RecordProducer(kafka))(Event("topic", "key", None))
    assert kafka.records[0][1]["value"] is None


def test_sender_waits_while_the_queue_is_full() -> None:
    kafka: Any = FakeKafka(full=3)
    KafkaSender(RecordProducer(kafka))(EVENT)
    assert len(kafka.records) == 1
    assert kafka.polls == [0.1, 0.1, 0.1, 0]


def test_sender_gives_up_on_a_full_queue_at_the_deadline() -> None:
    clock = Clock()
    kafka: Any = FakeKafka(full=10**9)
    calls: list[bool] = []

    def stopping() -> bool:
        calls.append(True)
        clock.now += 0.5
        return len(calls) > 3  # SIGTERM comes while a record waits for its turn

    sender = KafkaSender(RecordProducer(kafka), stopping, limit=2.0, now=clock)
    sender(EVENT)
    sender(EVENT)
    assert clock.now <= 105.0
    assert sender.finish() == 2
    assert kafka.flushes == [0.0]


def test_unacknowledged_records_are_counted() -> None:
    kafka: Any = FakeKafka()
    kafka.unsent = 2
    sender = KafkaSender(RecordProducer(kafka))
    sender(EVENT)
    report = kafka.records[0][1]["on_delivery"]
    message: Any = SimpleNamespace(partition=lambda: 0, offset=lambda: 0, timestamp=lambda: (1, 0))
    report(None, message)
    report(KafkaError(KafkaError._MSG_TIMED_OUT), message)
    assert sender.finish() == 3
