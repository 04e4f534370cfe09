"""The keys of a topic's records between two positions: what has changed, read again from Kafka."""

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
"""Seconds after which reading gives up."""
CONCURRENT_READS = 2
_BATCH = 10_000


class ChangedKeys:
    """Reads spans of topics again, in threads, a few at a time."""

    def __init__(self, kafka: Kafka, *, limit: float = LIMIT) -> None:
        self._kafka = kafka
        self._limit = limit
        self._slots = asyncio.Semaphore(CONCURRENT_READS)

    async def __call__(
        self, topic: str, id: str, start: Mapping[int, Mark], end: Mapping[int, Mark], most: int
    ) -> set[str] | None:
        """The key of every record from ``start`` up to ``end`` of the topic with this id.

        None if some may be missing (the topic was replaced, retention or compaction removed records, Kafka
        does not respond in time), or if there are more than ``most``.
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
                return await _in_thread(lambda: self._read(topic, id, spans, most))
        except TimeoutError:
            log.warning("reading topic %s again took more than %g s", topic, self._limit)
        except (DistributaryError, KafkaException) as error:
            log.warning("cannot read topic %s again: %s", topic, error)
        return None

    def _read(self, topic: str, id: str, spans: Mapping[int, tuple[int, int]], most: int) -> set[str] | None:
        admin = librdkafka.admin(self._kafka)
        # Compaction removes the records that delete rows.
        if topic_config(admin, topic).get("cleanup.policy") != "delete":
            return None
        consumer = librdkafka.consumer(
            self._kafka,
            "distributary.replay",
            auto_offset_reset="error",  # if retention has removed it
            enable_partition_eof=True,
        )
        try:
            offsets = [TopicPartition(topic, partition, span[0]) for partition, span in spans.items()]
            consumer.assign(offsets)
            found = _keys(consumer, {p: span[1] for p, span in spans.items()}, most, self._limit)
        finally:
            consumer.close()
        # Checked last: then it was this topic all the time, since an id is not reused.
        return found if get_topic(admin, topic).id == id else None


async def _in_thread(work: Callable[[], T]) -> T:
    """Do blocking work in a daemon thread: one that is stuck must not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def complete(result: T | None, error: Exception | None) -> None:
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
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(complete, found, error)

    threading.Thread(target=run, name="replay", daemon=True).start()
    return await done


def _keys(consumer: Consumer, ends: dict[int, int], most: int, limit: float) -> set[str] | None:
    """Read every partition up to its end; raises KafkaException if a record is gone."""
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
                if key is not None:  # a record without a key is a dead letter
                    found.add(key if isinstance(key, bytes) else key.encode())
            if error is not None or offset >= ends[partition] - 1:
                del ends[partition]
    try:
        return {key.decode() for key in found} if len(found) <= most else None
    except UnicodeDecodeError:
        return None
