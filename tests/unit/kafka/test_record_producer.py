"""The producer core over a librdkafka producer that a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import AsyncRecordProducer, Delivered, RecordProducer

RECORD = OutgoingRecord("t", b"v", b"k", reason="why")
MESSAGE = SimpleNamespace(partition=lambda: 2, offset=lambda: 7, timestamp=lambda: (1, 5))


class FakeHandle:
    """A producer that acknowledges one queued record a poll, or fails it with an error."""

    def __init__(self, *, full: int = 0, error: KafkaError | None = None, fatal: bool = False) -> None:
        self.full = full
        self.error = error
        self.fatal = fatal
        self.queued: list[Callable[..., None]] = []

    def produce(self, topic: str, value: bytes | None, key: bytes | None, **options: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        self.queued.append(options["on_delivery"])

    def poll(self, seconds: float) -> int:
        if self.fatal:
            self.fatal = False
            raise SystemError
        if self.queued:
            self.queued.pop(0)(self.error, MESSAGE)
        return 0

    def flush(self, seconds: float) -> int:
        self.poll(seconds)
        return len(self)

    def __len__(self) -> int:
        return len(self.queued)


def producer(**options: Any) -> tuple[RecordProducer, FakeHandle]:
    handle: Any = FakeHandle(**options)
    return RecordProducer(handle), handle


def test_delivery_report_says_where_the_record_is() -> None:
    core, _ = producer()
    reports: list[Delivered | Exception] = []
    assert core.queue(RECORD, reports.append)
    core.poll(0)
    assert reports == [Delivered("t", 2, 7, 5, "why")]


def test_failed_record_is_reported_with_its_error() -> None:
    core, _ = producer(error=KafkaError(KafkaError._MSG_TIMED_OUT))
    reports: list[Any] = []
    core.queue(RECORD, reports.append)
    core.poll(0)
    assert isinstance(reports[0], KafkaException)
    assert reports[0].args[0].code() == KafkaError._MSG_TIMED_OUT


def test_queue_within_waits_for_room_and_gives_up_after_its_limit() -> None:
    core, _ = producer(full=3)
    assert core.queue_within(RECORD, lambda report: None, 5)
    core, _ = producer(full=10**9)
    assert not core.queue_within(RECORD, lambda report: None, 0)


def test_flush_all_returns_when_nothing_is_left() -> None:
    core, handle = producer()
    for _ in range(5):
        core.queue(RECORD, lambda report: None)
    assert core.flush_all(5) == 0
    assert not handle.queued


def test_flush_all_returns_what_is_left_after_its_limit_or_when_stopped() -> None:
    core, handle = producer()
    for _ in range(5):
        core.queue(RECORD, lambda report: None)
    assert core.flush_all(None, lambda: len(handle) < 3) == 1
    handle.poll = lambda seconds: 0  # type: ignore[method-assign]
    assert core.flush_all(0) == 1


def test_fatal_error_is_raised_once_and_then_fails_every_record() -> None:
    core, _ = producer(error=KafkaError(KafkaError._PURGE_QUEUE), fatal=True)
    reports: list[Any] = []
    core.queue(RECORD, reports.append)
    with pytest.raises(KafkaException):
        core.poll(0)
    assert core.dead
    core.poll(0)
    assert reports[0].args[0].code() == KafkaError._FATAL


async def test_async_send_returns_when_the_record_is_acknowledged() -> None:
    face = AsyncRecordProducer(producer()[0], "test")
    assert (await face.send(RECORD)).offset == 7
    await face.close()
    assert face.closed


async def test_async_send_raises_when_the_queue_is_full() -> None:
    face = AsyncRecordProducer(producer(full=1)[0], "test")
    with pytest.raises(KafkaException, match="Queue full"):
        await face.send(RECORD)
    await face.close()


async def test_cancelled_send_does_not_disturb_later_ones() -> None:
    core, handle = producer()
    acknowledge, handle.poll = handle.poll, lambda seconds: 0  # type: ignore[method-assign]
    face = AsyncRecordProducer(core, "test")
    first = asyncio.create_task(face.send(RECORD))
    await asyncio.sleep(0)
    first.cancel()
    handle.poll = acknowledge  # type: ignore[method-assign]
    assert (await face.send(RECORD)).offset == 7
    await face.close()
