"""Writes records from an event loop, by the rules of their topics, acknowledged by all in-sync replicas."""

from __future__ import annotations

import asyncio

from confluent_kafka import KafkaError, KafkaException

from distributary.config.sections import Kafka
from distributary.deadline import DeadlinePool
from distributary.errors import ChecksBusy, DistributaryError
from distributary.kafka import librdkafka
from distributary.kafka.kafka_errors import write_error
from distributary.kafka.outgoing_record import OutgoingRecord, ensure_dead_letter_topic
from distributary.kafka.record_producer import AsyncRecordProducer, Delivered, RecordProducer
from distributary.kafka.record_router import RecordRouter

REFRESH = 1.0
"""How old a topic's number of partitions may be when a key is assigned to one, in seconds."""
_METADATA_LIMIT = 5.0
_CHECK_SECONDS = 1.0


class TopicWriter:
    """Writes records for one event loop.

    The producer is created with the first record: a component that writes nothing has none. Records pass the
    ``router``; what may take long to check has a ``deadline``, one of its own if none is given. Keys are
    assigned to partitions as the Java client does. A record that is not checked and acknowledged within
    ``timeout`` seconds has failed.
    """

    def __init__(
        self,
        kafka: Kafka,
        router: RecordRouter,
        *,
        timeout: float = 30.0,
        linger_ms: int = 1,
        deadline: DeadlinePool | None = None,
    ) -> None:
        self._kafka = kafka
        self._router = router
        self._deadline = deadline or DeadlinePool(_CHECK_SECONDS)
        self._timeout = timeout
        self._linger_ms = linger_ms
        self._producer: AsyncRecordProducer | None = None
        self._dead_letter_topics: dict[str, asyncio.Task[None]] = {}
        self._partitions: dict[str, int] = {}

    async def prepare(self, topic: str, partition: int) -> None:
        """Make sure that a partition can be written to even if it was just added.

        A caller that names a partition in a record awaits this before the first `send`, so that records stay
        in order. Raises as `send` does; `send` refuses a partition that does not exist.
        """
        if partition >= self._partitions.get(topic, 0):
            handle = self._connected().core.handle
            try:
                metadata = await asyncio.to_thread(handle.list_topics, topic, _METADATA_LIMIT)
            except KafkaException as error:
                raise _write_error(error.args[0], OutgoingRecord(topic, None)) from None
            self._partitions[topic] = len(metadata.topics[topic].partitions)

    async def send(self, record: OutgoingRecord) -> Delivered:
        """Write one record and wait until it is acknowledged; queued in the order of the calls.

        Raises `KafkaUnavailable` or `ChecksBusy` if a retry may help, `TopicError` if it was refused.
        """
        record = await self._route(record)
        if record.reason:
            await self._ensure_dead_letter_topic(record.topic)
        return await self._connected().send(record)

    async def close(self, timeout: float = 2.0) -> None:
        """Send what is queued, for at most ``timeout`` seconds, and end."""
        await self._deadline.close()
        if self._producer is not None:
            await self._producer.close(timeout)

    async def _route(self, record: OutgoingRecord) -> OutgoingRecord:
        if self._router.is_cheap(record):
            return self._router.route(record)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._router.route_in_time(record, self._deadline)
        except TimeoutError:
            raise ChecksBusy(
                f"a record for topic {record.topic} is not written: the checks of earlier ones take too long",
                hint="Try again in a moment",
            ) from None

    async def _ensure_dead_letter_topic(self, topic: str) -> None:
        task = self._dead_letter_topics.get(topic)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            creation = asyncio.to_thread(
                lambda: ensure_dead_letter_topic(librdkafka.admin(self._kafka), topic)
            )
            task = self._dead_letter_topics[topic] = asyncio.ensure_future(creation)
        await asyncio.shield(task)

    def _connected(self) -> AsyncRecordProducer:
        if self._producer is None:
            handle = librdkafka.producer(
                self._kafka,
                linger_ms=self._linger_ms,
                partitioner="murmur2_random",
                delivery_timeout_ms=int(self._timeout * 1000),
                topic_metadata_refresh_interval_ms=int(REFRESH * 1000),
                # A missing topic is an error instead of being waited for.
                topic_metadata_propagation_max_ms=int(min(self._timeout / 2, 2.0) * 1000),
            )
            self._producer = AsyncRecordProducer(RecordProducer(handle, _write_error), "topic-writer")
        return self._producer


def _write_error(error: KafkaError, record: OutgoingRecord | None) -> DistributaryError:
    return write_error(error, f"a record for topic {record.topic}" if record else "a record")
