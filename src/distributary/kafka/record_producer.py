"""Producing records: one core that everything here composes, and its face for an event loop.

A record is queued, and comes to a delivery report: where it is, or the error that ended it. Every record is
acknowledged by all in-sync replicas unless a producer's own properties say otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from distributary.kafka import librdkafka
from distributary.kafka.outgoing_record import OutgoingRecord

log = logging.getLogger(__name__)

SLICE = 0.1
"""How long one call may stay inside librdkafka, in seconds: Ctrl-C does not interrupt it there."""


class Delivered(NamedTuple):
    """Where a record is, and its timestamp in ms. ``reason`` is not "" if it is a dead letter."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    reason: str = ""


ErrorOf = Callable[[KafkaError, OutgoingRecord | None], Exception]
"""Turns Kafka's error into the one to raise, for a record or (None) for the whole producer."""

OnDelivery = Callable[[Delivered | Exception], None]
"""Receives a delivery report, in whatever thread polls."""


def kafka_exception(error: KafkaError, record: OutgoingRecord | None) -> KafkaException:
    """The `ErrorOf` of callers that handle Kafka's own errors."""
    return KafkaException(error)


class RecordProducer:
    """Queues records in the order of the calls and reports how each ended. All methods are thread-safe.

    Delivery reports arrive only during `poll` and `flush`. ``handle`` is the librdkafka producer, for
    what is not about records (transactions, metadata).
    """

    def __init__(self, handle: Producer, error_of: ErrorOf = kafka_exception) -> None:
        self.handle = handle
        self.dead = False
        """Whether librdkafka has met a fatal error, after which it sends nothing."""
        self._error_of = error_of
        self._fatal: KafkaError | None = None  # that error, if it was met while polling

    def __len__(self) -> int:
        """The number of records that have no delivery report yet."""
        return len(self.handle)

    def queue(self, record: OutgoingRecord, on_delivery: OnDelivery) -> bool:
        """Queue a record; False if there is no room now. Raises for a record that is refused at once."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                on_delivery(self.error(error, record))
                return
            offset = message.offset()
            on_delivery(
                Delivered(
                    topic=record.topic,
                    partition=message.partition() or 0,
                    offset=-1 if offset is None else offset,
                    timestamp=message.timestamp()[1],
                    reason=record.reason,
                )
            )

        headers: Any = list(record.headers)
        try:
            self.handle.produce(
                record.topic,
                record.value,
                record.key,
                partition=self.choose_partition(record),
                headers=headers,
                timestamp=record.timestamp,
                on_delivery=delivered,
            )
        except BufferError:
            return False
        except KafkaException as error:
            raise self.error(error.args[0], record) from None
        return True

    def choose_partition(self, record: OutgoingRecord) -> int:
        """The partition to write a record to; -1 leaves the choice to librdkafka's partitioner."""
        return record.partition

    def queue_within(self, record: OutgoingRecord, on_delivery: OnDelivery, seconds: float) -> bool:
        """As `queue`, waiting for room for ``seconds``; False if there was none."""
        deadline = time.monotonic() + seconds
        while not self.queue(record, on_delivery):
            if time.monotonic() > deadline:
                return False
            self.poll(SLICE)
        return True

    def poll(self, seconds: float, record: OutgoingRecord | None = None) -> None:
        """Wait for delivery reports for ``seconds``; raises a fatal error, once, as that of ``record``."""
        self._call(self.handle.poll, seconds, record)

    def flush(self, seconds: float) -> int:
        """Send what is queued for ``seconds``; return how many records are left. Raises as `poll`."""
        if len(self.handle):  # a fatal error that flush() meets loses its reason, so poll first
            self.poll(min(SLICE, seconds) / 2)
        return self._call(self.handle.flush, seconds, None)

    def flush_all(self, seconds: float | None, stop: Callable[[], bool] = lambda: False) -> int:
        """Flush until all is delivered, ``stop`` is true or ``seconds`` are over; return what is left."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while (left := len(self.handle)) and not stop():
            self.flush(SLICE)
            if deadline is not None and time.monotonic() > deadline:
                return left
        return left

    def _call(self, call: Callable[[float], int], seconds: float, record: OutgoingRecord | None) -> int:
        try:
            return librdkafka.serve(call, seconds)
        except KafkaException as error:
            known, self.dead = self.dead, True
            self._fatal = self._fatal or error.args[0]
            if known:
                return 0
            raise self._error_of(self._fatal, record) from None

    def error(self, error: KafkaError, record: OutgoingRecord | None) -> Exception:
        """The error to raise for one of Kafka's."""
        # After a fatal error every record fails with a code that only says so; the first has the reason.
        return self._error_of(self._fatal or error, record)


class AsyncRecordProducer:
    """A `RecordProducer` for one event loop. A thread polls, so nothing blocks the loop."""

    def __init__(self, core: RecordProducer, name: str) -> None:
        self.core = core
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing.is_set()

    def queue(self, record: OutgoingRecord) -> asyncio.Future[Delivered] | None:
        """Queue a record; return its delivery report to come, or None if there is no room now.

        Records are queued in the order of the calls. Raises for a record that is refused at once.
        """
        loop = asyncio.get_running_loop()
        report: asyncio.Future[Delivered] = loop.create_future()

        def complete(result: Delivered | Exception) -> None:
            if report.done():  # cancelled
                return
            if isinstance(result, Exception):
                report.set_exception(result)
            else:
                report.set_result(result)

        def delivered(result: Delivered | Exception) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(complete, result)

        return report if self.core.queue(record, delivered) else None

    async def send(self, record: OutgoingRecord) -> Delivered:
        """Queue a record and wait until it is acknowledged; a full queue is an error at once."""
        report = self.queue(record)
        if report is None:
            raise self.core.error(KafkaError(KafkaError._QUEUE_FULL), record)
        return await report

    async def flush(self, seconds: float) -> int:
        """Send what is queued for ``seconds``; return how many records are left."""
        return await asyncio.to_thread(self._flush, seconds)

    async def close(self, seconds: float = 0.0) -> None:
        """Flush for at most ``seconds``, then stop the thread."""
        await self.flush(seconds)
        self._closing.set()
        await asyncio.to_thread(self._thread.join)

    def _flush(self, seconds: float) -> int:
        try:
            return self.core.flush(seconds)
        except Exception as error:  # every waiting record gets it as its report, too
            log.error("%s", error)
            return len(self.core)

    def _poll(self) -> None:
        while not self._closing.is_set():
            try:
                self.core.poll(SLICE)
            except Exception as error:  # as above
                log.error("%s", error)
