"""Writes records for an event loop, each acknowledged by every in-sync replica."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from distributary.config.sections import Kafka
from distributary.deadline import Deadline
from distributary.errors import ChecksBusy, DistributaryError, KafkaUnavailable, TopicError
from distributary.kafka import librdkafka
from distributary.kafka.outgoing_record import OutgoingRecord, ensure_dead_letter_topic
from distributary.kafka.record_router import RecordRouter

_MAY_PASS = frozenset(
    (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._QUEUE_FULL,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
)


REFRESH = 1.0
"""Seconds after which the partitions of topics are looked up again: keys go by a count that old at most."""
_SECONDS = 5.0
_CHECK_SECONDS = 1.0


class Written(NamedTuple):
    """Where a record is, and its timestamp in ms. ``reason`` is not "" where it is a dead letter."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    reason: str = ""


class TopicWriter:
    """For one event loop. A thread of its own hears the acknowledgements, so nothing blocks the loop.

    Client and thread are made with the first record: a part to which nobody writes has neither. Records go
    through the ``router``; what may take long to check has a ``deadline``, its own unless one is given. Keys
    land on the partition that the Java client chooses. Whatever is not checked and acknowledged within
    ``timeout`` seconds has failed.
    """

    def __init__(
        self,
        kafka: Kafka,
        router: RecordRouter,
        *,
        timeout: float = 30.0,
        linger_ms: int = 1,
        deadline: Deadline | None = None,
    ) -> None:
        self._kafka = kafka
        self._router = router
        self._deadline = deadline or Deadline(_CHECK_SECONDS)
        self._timeout = timeout
        self._linger_ms = linger_ms
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._letters: dict[str, asyncio.Task[None]] = {}
        self._counts: dict[str, int] = {}

    async def prepare(self, topic: str, partition: int) -> None:
        """Make sure that a partition can be written to though it was added just now.

        Who names a partition in a record waits for this before the first `send`, so that records stay in
        order. Raises as `send` does; a partition that does not exist is for `send` to refuse.
        """
        if partition >= self._counts.get(topic, 0):
            try:
                seen = await asyncio.to_thread(self._client().list_topics, topic, _SECONDS)
            except KafkaException as error:
                raise _failed(error.args[0], topic) from None
            self._counts[topic] = len(seen.topics[topic].partitions)

    async def send(self, record: OutgoingRecord) -> Written:
        """Write one record and wait until it is acknowledged; queued in the order of the calls.

        Raises `KafkaUnavailable` or `ChecksBusy` when that may pass, `TopicError` when it was refused.
        """
        record = await self._checked(record)
        if record.reason:
            await self._find_letters(record.topic)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Written] = loop.create_future()

        def settle(error: KafkaError | None, place: tuple[int, int, int]) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(Written(record.topic, *place, record.reason))
            else:
                done.set_exception(_failed(error, record.topic))

        def heard(error: KafkaError | None, message: Message) -> None:
            place = message.partition() or 0, message.offset() or 0, message.timestamp()[1]
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error, place)

        headers: Any = list(record.headers)
        try:
            self._client().produce(
                record.topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=headers,
                timestamp=record.timestamp,
                on_delivery=heard,
            )
        except BufferError:
            raise _failed(KafkaError(KafkaError._QUEUE_FULL), record.topic) from None
        except KafkaException as error:
            raise _failed(error.args[0], record.topic) from None
        return await done

    async def close(self, timeout: float = 2.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end."""
        await self._deadline.close()
        if self._producer is not None and self._thread is not None:
            await asyncio.to_thread(self._producer.flush, timeout)
            self._closing.set()
            await asyncio.to_thread(self._thread.join)

    async def _checked(self, record: OutgoingRecord) -> OutgoingRecord:
        if self._router.is_cheap(record):
            return self._router.route(record)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._router.route_in_time(record, self._deadline)
        except TimeoutError:
            raise ChecksBusy(
                f"a record for topic {record.topic} is not written: those before it take long to check",
                hint="Try again in a moment",
            ) from None

    async def _find_letters(self, topic: str) -> None:
        task = self._letters.get(topic)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            making = asyncio.to_thread(lambda: ensure_dead_letter_topic(librdkafka.admin(self._kafka), topic))
            task = self._letters[topic] = asyncio.ensure_future(making)
        await asyncio.shield(task)

    def _client(self) -> Producer:
        if self._producer is None:
            made = self._producer = librdkafka.producer(
                self._kafka,
                linger_ms=self._linger_ms,
                partitioner="murmur2_random",
                delivery_timeout_ms=int(self._timeout * 1000),
                topic_metadata_refresh_interval_ms=int(REFRESH * 1000),
                # A topic that is missing is said to be, instead of being waited for.
                topic_metadata_propagation_max_ms=int(min(self._timeout / 2, 2.0) * 1000),
            )
            self._thread = threading.Thread(
                target=self._listen, args=(made,), name="topic-writer", daemon=True
            )
            self._thread.start()
        return self._producer

    def _listen(self, producer: Producer) -> None:
        while not self._closing.is_set():
            producer.poll(0.1)


def _failed(error: KafkaError, topic: str) -> DistributaryError:
    said = f"a record for topic {topic} is not written: {error.str()}"
    if error.retriable() or error.code() in _MAY_PASS:
        return KafkaUnavailable(said, hint="Check that Kafka runs and answers")
    return TopicError(said)
