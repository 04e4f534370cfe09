"""Which record keys a topic had between two places: read again, for whoever needs to know what changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from distributary.config.sections import Kafka
from distributary.errors import DistributaryError
from distributary.kafka import librdkafka
from distributary.kafka.topics import get_topic, topic_config
from distributary.model.position import Mark

log = logging.getLogger(__name__)

T = TypeVar("T")

LIMIT = 10.0
"""Seconds after which reading is given up."""
AT_ONCE = 2
_BATCH = 10_000


class TouchedKeys:
    """Reads topics again, in threads, a few at a time."""

    def __init__(self, kafka: Kafka, *, limit: float = LIMIT) -> None:
        self._kafka = kafka
        self._limit = limit
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def __call__(
        self, topic: str, id: str, start: Mapping[int, Mark], end: Mapping[int, Mark], most: int
    ) -> set[str] | None:
        """Name the key of every record from ``start`` on, before ``end``, of the topic with this id.

        None when some may be missing: another topic, records that retention or compaction took, a Kafka that
        does not answer in time; and when there are more than ``most``.
        """
        spans = {
            partition: (start[partition].offset, mark.offset + (mark.part > 0))
            for partition, mark in end.items()
            if start[partition] < mark
        }
        if not spans:
            return set()
        try:
            async with asyncio.timeout(self._limit), self._slots:
                return await _aside(lambda: self._read(topic, id, spans, most))
        except TimeoutError:
            log.warning("topic %s was not read again within %g s", topic, self._limit)
        except (DistributaryError, KafkaException) as error:
            log.warning("topic %s cannot be read again (%s)", topic, error)
        return None

    def _read(self, topic: str, id: str, spans: Mapping[int, tuple[int, int]], most: int) -> set[str] | None:
        admin = librdkafka.admin(self._kafka)
        # A compacted topic forgets that a row was removed.
        if topic_config(admin, topic).get("cleanup.policy") != "delete":
            return None
        consumer = librdkafka.consumer(
            self._kafka,
            "distributary.replay",
            auto_offset_reset="error",  # retention took it
            enable_partition_eof=True,
        )
        try:
            places = [TopicPartition(topic, partition, span[0]) for partition, span in spans.items()]
            consumer.assign(places)
            found = _keys(consumer, {p: span[1] for p, span in spans.items()}, most, self._limit)
        finally:
            consumer.close()
        # Asked last: it was this topic all the while, since an id does not come back.
        return found if get_topic(admin, topic).id == id else None


async def _aside(work: Callable[[], T]) -> T:
    """Do blocking work in a thread that nobody waits for: one that is stuck must not keep a process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        found, error = None, None
        try:
            found = work()
        except Exception as trouble:
            error = trouble
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=run, name="replay", daemon=True).start()
    return await done


def _keys(consumer: Consumer, ends: dict[int, int], most: int, limit: float) -> set[str] | None:
    """Read every partition up to its end; raises KafkaException when a record is gone."""
    deadline = time.monotonic() + limit
    found: set[bytes] = set()
    while ends:
        if time.monotonic() > deadline or len(found) > most:
            return None
        for message in consumer.consume(_BATCH, timeout=0.05):
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if partition is None or offset is None or partition not in ends:
                continue
            if error is None and offset < ends[partition]:
                key = message.key()
                if key is not None:  # without one it is a dead letter
                    found.add(key if isinstance(key, bytes) else key.encode())
            if error is not None or offset >= ends[partition] - 1:
                del ends[partition]
    try:
        return {key.decode() for key in found} if len(found) <= most else None
    except UnicodeDecodeError:
        return None
