"""The schemas topic: read into a `SchemaCatalog` as it grows, and written by one gateway at a time.

Several gateways agree without a leader: all write with the same transactional id. A gateway that starts to
write takes over the id, which fences the previous writer; then it reads the topic to its end, decides by its
contents, and writes in a transaction. So a decision on an outdated catalog is never committed: the gateway
that wrote more has taken over the id, and Kafka rejects the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.errors import KafkaUnavailable, TopicError
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schemas_topic_records import Record
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_producer import Delivered, RecordProducer
from distributary.kafka.topics import ensure_topic, get_topic, topic_config

log = logging.getLogger(__name__)

T = TypeVar("T")

_ATTEMPTS = 5
_TIMEOUT = 15.0
"""Seconds for reading to the end, or for one step of a transaction."""


class SchemaLog:
    """For one event loop: `catalog` changes only in it. A thread reads the topic."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self.catalog = SchemaCatalog()
        self._kafka = kafka
        self._topic = topic
        self._producer: RecordProducer | None = None
        """The writer with the transactional id; None until it is taken over (again)."""
        self._write_lock = asyncio.Lock()
        self._start_lock = asyncio.Lock()
        self._reader: _ReaderThread | None = None
        self._topic_id = ""
        self._position = 0
        """The offset up to which the catalog has the topic's records."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """Callers that wait until a position is reached."""

    async def caught_up(self) -> SchemaCatalog:
        """Return the catalog once all that is in the topic now was applied.

        Raises KafkaUnavailable or TopicError.
        """
        await self._start()
        topic_id, end = await asyncio.to_thread(self._end)
        if topic_id != self._topic_id:
            await self._restart()
        await self._read_to(end)
        return self.catalog

    async def _read_to(self, end: int) -> None:
        await self._start()  # the thread may have failed just now
        if self._position < end:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((end, done))
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await done
            except TimeoutError:
                raise self._unavailable("its end was not reached in time") from None

    async def change(self, decide: Callable[[SchemaCatalog], tuple[T, list[Record]]]) -> T:
        """Decide by the current catalog what to write, and write it.

        Returns what ``decide`` returned, once the catalog has its records. ``decide`` may be called again,
        with a newer catalog; if it raises, nothing is written.
        """
        async with self._write_lock:
            reason = ""
            for _ in range(_ATTEMPTS):
                try:
                    if self._producer is None:
                        self._producer = await asyncio.to_thread(self._take_over)
                    producer = self._producer
                    result, records = decide(await self.caught_up())
                    if records:
                        # Not to the end offset of the partition: that includes a transaction only a moment
                        # after its commit. Once we have read it, so can everyone.
                        await self._read_to(await asyncio.to_thread(self._write, producer, records))
                    return result
                except KafkaException as error:
                    # Another gateway took over the id, or the outcome is unknown: the next take-over first
                    # ends the open transaction, and then the topic shows its outcome.
                    self._producer = None
                    reason = error.args[0].str()
            raise self._unavailable(reason)

    async def close(self) -> None:
        """End the thread; after that nothing is written."""
        await self._stop()
        self._producer = None

    async def _start(self) -> None:
        """Start the thread that reads the topic, unless it runs: the previous one may have failed."""
        async with self._start_lock:
            if self._reader is None:
                self._topic_id = await asyncio.to_thread(self._ensure)
                self._reader = _ReaderThread()
                self._reader.start(self._read, asyncio.get_running_loop(), self._position)

    async def _stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await asyncio.to_thread(reader.stop)

    async def _restart(self) -> None:
        """Start from scratch: it is another topic of the same name, whose ids mean other schemas."""
        log.warning(
            "the schemas topic %s was deleted and created again; reading it from the start", self._topic
        )
        await self._stop()
        self.catalog, self._position, self._producer = SchemaCatalog(), 0, None
        await self._start()

    @functools.cache  # noqa: B019 - there is one for each process
    def _admin(self) -> AdminClient:
        return librdkafka.admin(self._kafka)

    def _end(self) -> tuple[str, int]:
        topic = get_topic(self._admin(), self._topic)
        return topic.id, topic_offsets.end_offsets(self._admin(), self._topic, [0])[0]

    def _ensure(self) -> str:
        topic = ensure_topic(self._admin(), self._topic, 1, {"cleanup.policy": "compact"})
        policy = topic_config(self._admin(), self._topic).get("cleanup.policy")
        if policy != "compact":
            raise TopicError(
                f"the schemas topic {self._topic} has cleanup.policy = {policy}: schemas would be lost",
                hint="Set it to compact, or name another topic in gateway.schemas_topic",
            )
        return topic.id

    def _take_over(self) -> RecordProducer:
        handle = librdkafka.producer(
            self._kafka,
            linger_ms=0,
            transactional_id=f"{self._topic}.writer",
            transaction_timeout_ms=int(_TIMEOUT * 1000),
            # librdkafka requires that this is not longer than the transaction.
            delivery_timeout_ms=int(_TIMEOUT * 1000),
        )
        handle.init_transactions(_TIMEOUT)
        return RecordProducer(handle)

    def _write(self, producer: RecordProducer, records: list[Record]) -> int:
        """Write records in one transaction; returns the offset after the last. Raises KafkaException."""
        ends: list[int] = []

        def delivered(report: Delivered | Exception) -> None:
            if isinstance(report, Delivered):
                ends.append(report.offset + 1)

        producer.handle.begin_transaction()
        for key, value in records:
            record = OutgoingRecord(self._topic, value, key, 0)
            if not producer.queue_within(record, delivered, _TIMEOUT):
                raise producer.error(KafkaError(KafkaError._QUEUE_FULL), record)
        producer.handle.commit_transaction(_TIMEOUT)  # which waits for the delivery reports
        return max(ends, default=0)

    def _read(self, reader: _ReaderThread, loop: asyncio.AbstractEventLoop, start: int) -> None:
        """Read the topic from an offset until it is stopped; runs in the reader's thread."""

        def post(call: Callable[..., None], argument: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended before us
                loop.call_soon_threadsafe(call, reader, argument)

        consumer: Consumer | None = None
        try:
            consumer = librdkafka.consumer(
                self._kafka,
                f"{self._topic}.reader",
                enable_partition_eof=True,
                fetch_wait_max_ms=50,
                auto_offset_reset="earliest",
            )
            consumer.assign([TopicPartition(self._topic, 0, start)])
            while not reader.stopping.is_set():
                first = consumer.poll(0.1)
                if first is not None:
                    post(self._apply, [first, *consumer.consume(1000, 0)])
        except Exception as error:
            post(self._on_failure, error)
        finally:
            if consumer is not None:
                _close(consumer)

    def _on_failure(self, reader: _ReaderThread, error: Exception) -> None:
        """Fail the waiting callers; the next caller starts a new reader."""
        if reader is not self._reader:
            return
        log.error("reading the schemas topic %s failed: %s", self._topic, error)
        self._reader = None
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_exception(self._unavailable(str(error)))

    def _apply(self, reader: _ReaderThread, messages: list[Message]) -> None:
        if reader is not self._reader:
            return
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is None:
                self.catalog.apply(message.key(), message.value())
                self._position = max(self._position, (offset or 0) + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                # After the last record there may be transaction markers, which consumers do not return.
                self._position = max(self._position, offset or 0)
            else:
                log.warning("cannot read the schemas topic: %s", error)
        waiting, self._waiting = self._waiting, []
        for end, done in waiting:
            if self._position < end:
                self._waiting.append((end, done))
            elif not done.done():
                done.set_result(None)

    def _unavailable(self, reason: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"the schemas topic {self._topic} is not available ({reason})", hint="Retry in a moment"
        )


class _ReaderThread:
    """The thread that reads the topic; what a stopped one still posts is ignored."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, read: Callable[..., None], *args: object) -> None:
        self._thread = threading.Thread(target=read, args=(self, *args), name="schemas-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        if self._thread is not None:
            self._thread.join()


def _close(consumer: Consumer) -> None:
    with contextlib.suppress(KafkaException, RuntimeError):
        consumer.close()
