"""The schemas topic: read into a `SchemaCatalog` as it grows, and written by one gateway at a time.

Several gateways agree without electing one: all write under the same transactional id. Who begins to write
takes that id over, which ends the writing of whoever had it; then reads the topic to its end, decides by what
stands there, and writes in a transaction. A decision made on less than the whole truth is therefore never
committed: whoever knew more has taken the id, and the commit is refused.
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
_SECONDS = 15.0
"""How long a read to the end, or one step of a transaction, may take."""


class SchemaLog:
    """For one event loop: `catalog` changes only in it. A thread reads the topic."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self.catalog = SchemaCatalog()
        self._kafka = kafka
        self._topic = topic
        self._producer: RecordProducer | None = None
        self._writing = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._reading: _Reading | None = None
        self._topic_id = ""
        self._reached = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def caught_up(self) -> SchemaCatalog:
        """Return the catalog once all that is in the topic now was applied.

        Raises KafkaUnavailable or TopicError.
        """
        await self._start()
        topic_id, end = await asyncio.to_thread(self._end)
        if topic_id != self._topic_id:
            await self._begin_anew()
        await self._read_to(end)
        return self.catalog

    async def _read_to(self, end: int) -> None:
        await self._start()  # the thread may have failed just now
        if self._reached < end:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((end, done))
            try:
                async with asyncio.timeout(_SECONDS):
                    await done
            except TimeoutError:
                raise self._silent("its end was not reached in time") from None

    async def change(self, decide: Callable[[SchemaCatalog], tuple[T, list[Record]]]) -> T:
        """Decide by the whole truth what to write, and write it.

        Gives what ``decide`` gave once the catalog holds its records. ``decide`` may be called again, with a
        newer catalog; what it raises is raised here and nothing is written.
        """
        async with self._writing:
            trouble = ""
            for _ in range(_ATTEMPTS):
                try:
                    if self._producer is None:
                        self._producer = await asyncio.to_thread(self._take_over)
                    producer = self._producer
                    found, records = decide(await self.caught_up())
                    if records:
                        # Not to the end that Kafka names: a transaction counts there a moment after it
                        # was committed. Once we read it, everybody does.
                        await self._read_to(await asyncio.to_thread(self._write, producer, records))
                    return found
                except KafkaException as error:
                    # Another gateway took the id over, or the outcome is not known: whoever takes it over
                    # next first ends what was under way, and then sees what became of it.
                    self._producer = None
                    trouble = error.args[0].str()
            raise self._silent(trouble)

    async def close(self) -> None:
        """End the thread; nothing is written any more."""
        await self._stop()
        self._producer = None

    async def _start(self) -> None:
        """Read the topic on in a thread, unless one does: the first, or the one before, may have failed."""
        async with self._starting:
            if self._reading is None:
                self._topic_id = await asyncio.to_thread(self._ensure)
                self._reading = _Reading()
                self._reading.start(self._read, asyncio.get_running_loop(), self._reached)

    async def _stop(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await asyncio.to_thread(reading.stop)

    async def _begin_anew(self) -> None:
        """Forget what was read: it is another topic under the same name, whose ids mean other schemas."""
        log.warning("the schemas topic %s was made anew, and is read anew", self._topic)
        await self._stop()
        self.catalog, self._reached, self._producer = SchemaCatalog(), 0, None
        await self._start()

    @functools.cache  # noqa: B019 - there is one for a process
    def _admin(self) -> AdminClient:
        return librdkafka.admin(self._kafka)

    def _end(self) -> tuple[str, int]:
        found = get_topic(self._admin(), self._topic)
        return found.id, topic_offsets.end_offsets(self._admin(), self._topic, [0])[0]

    def _ensure(self) -> str:
        found = ensure_topic(self._admin(), self._topic, 1, {"cleanup.policy": "compact"})
        policy = topic_config(self._admin(), self._topic).get("cleanup.policy")
        if policy != "compact":
            raise TopicError(
                f"the schemas topic {self._topic} has cleanup.policy = {policy}: schemas would be lost",
                hint="Set it to compact, or name another topic in gateway.schemas_topic",
            )
        return found.id

    def _take_over(self) -> RecordProducer:
        handle = librdkafka.producer(
            self._kafka,
            linger_ms=0,
            transactional_id=f"{self._topic}.writer",
            transaction_timeout_ms=int(_SECONDS * 1000),
            # Not longer than the transaction: librdkafka refuses it otherwise.
            delivery_timeout_ms=int(_SECONDS * 1000),
        )
        handle.init_transactions(_SECONDS)
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
            if not producer.queue_within(record, delivered, _SECONDS):
                raise producer.error(KafkaError(KafkaError._QUEUE_FULL), record)
        producer.handle.commit_transaction(_SECONDS)  # which waits for the delivery reports
        return max(ends, default=0)

    def _read(self, reading: _Reading, loop: asyncio.AbstractEventLoop, start: int) -> None:
        """Read the topic on from an offset until it is to stop; runs in a thread."""

        def tell(call: Callable[..., None], what: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended before us
                loop.call_soon_threadsafe(call, reading, what)

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
            while not reading.stopping.is_set():
                first = consumer.poll(0.1)
                if first is not None:
                    tell(self._take, [first, *consumer.consume(1000, 0)])
        except Exception as error:
            tell(self._failed, error)
        finally:
            if consumer is not None:
                _close(consumer)

    def _failed(self, reading: _Reading, error: Exception) -> None:
        """Tell those who wait; whoever comes next begins to read again."""
        if reading is not self._reading:
            return
        log.error("the schemas topic %s is not read any more: %s", self._topic, error)
        self._reading = None
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_exception(self._silent(str(error)))

    def _take(self, reading: _Reading, messages: list[Message]) -> None:
        if reading is not self._reading:
            return
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is None:
                self.catalog.apply(message.key(), message.value())
                self._reached = max(self._reached, (offset or 0) + 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                # Beyond the last record there may be marks of transactions, which no reader is given.
                self._reached = max(self._reached, offset or 0)
            else:
                log.warning("the schemas topic cannot be read: %s", error)
        waiting, self._waiting = self._waiting, []
        for end, done in waiting:
            if self._reached < end:
                self._waiting.append((end, done))
            elif not done.done():
                done.set_result(None)

    def _silent(self, why: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"the schemas topic {self._topic} cannot be used now ({why})", hint="Try again in a moment"
        )


class _Reading:
    """One thread that reads the topic; what an older one still tells does not count."""

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
