"""Single records of a topic, read by their offsets."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka

SEEK_DISTANCE = 2_000
"""Offsets to the next requested record from which on a seek is used instead of reading on."""
_BATCH = 500


class RecordLookup:
    """Reads single records of one topic; stays connected until ``close``. For one thread.

    With ``committed`` False it reads every record of the log, including those of aborted transactions.
    """

    def __init__(self, kafka: Kafka, topic: str, *, committed: bool = True) -> None:
        self._kafka = kafka
        self._topic = topic
        self._committed = committed
        self._consumer: Consumer | None = None

    def read(
        self, offsets: Mapping[int, Collection[int]], limit: float = 30.0
    ) -> dict[tuple[int, int], Message]:
        """Read the records at these offsets of each partition, in one pass over each.

        Records that do not exist (any more) are missing in the result. Raises KafkaException if Kafka does
        not respond for ``limit`` seconds; it can then be called again.
        """
        left = {partition: sorted(some) for partition, some in offsets.items() if some}
        found: dict[tuple[int, int], Message] = {}
        if not left:
            return found
        consumer = self._connect()
        try:
            self._assign(consumer, left)
            deadline = time.monotonic() + limit
            while left:
                messages = consumer.consume(_BATCH, timeout=0.1)
                if messages:
                    deadline = time.monotonic() + limit
                elif time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "cannot read the record again"))
                for message in messages:
                    self._take(consumer, message, left, found)
            consumer.unassign()
        except BaseException:
            self.close()
            raise
        return found

    def next_records(self, starts: Mapping[int, int], limit: float = 30.0) -> dict[int, Message]:
        """Read the first record at or after an offset of each partition; missing if there is none.

        Raises as ``read`` does.
        """
        left, found = dict(starts), dict[int, Message]()
        if not left:
            return found
        consumer = self._connect()
        try:
            consumer.assign([self._at(*pair) for pair in left.items()])
            deadline = time.monotonic() + limit
            while left:
                messages = consumer.consume(_BATCH, timeout=0.1)
                if not messages and time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "cannot read the next record"))
                for message in messages:
                    self._take_next(consumer, message, left, found)
            consumer.unassign()
        except BaseException:
            self.close()
            raise
        return found

    def _take_next(
        self, consumer: Consumer, message: Message, left: dict[int, int], found: dict[int, Message]
    ) -> None:
        partition, error = message.partition(), message.error()
        if partition is None or partition not in left:
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            return
        if error is None:
            found[partition] = message
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            low, high = consumer.get_watermark_offsets(self._at(partition, 0), timeout=5.0)
            if left[partition] < low < high:  # retention has removed it
                left[partition] = low
                consumer.assign([self._at(*pair) for pair in left.items()])
                return
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        del left[partition]
        consumer.incremental_unassign([self._at(partition, 0)])

    def close(self) -> None:
        """Disconnect; the next ``read`` connects again."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _connect(self) -> Consumer:
        if self._consumer is None:
            # The library waits for a fetch in flight before it sends another, and a fetch at the end of a
            # partition stays in flight for as long as the broker waits for records.
            options = {"auto_offset_reset": "error", "enable_partition_eof": True, "fetch_wait_max_ms": 10}
            create = librdkafka.consumer if self._committed else librdkafka.uncommitted_consumer
            self._consumer = create(self._kafka, "distributary.lookup", **options)
        return self._consumer

    def _assign(self, consumer: Consumer, left: Mapping[int, list[int]]) -> None:
        consumer.assign([self._at(partition, offsets[0]) for partition, offsets in left.items()])

    def _at(self, partition: int, offset: int) -> TopicPartition:
        return TopicPartition(self._topic, partition, offset)

    def _take(
        self,
        consumer: Consumer,
        message: Message,
        left: dict[int, list[int]],
        found: dict[tuple[int, int], Message],
    ) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if partition not in left or partition is None:
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            return
        offsets = left[partition]
        if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
            # Retention has passed it, or the log ends before it.
            low, high = consumer.get_watermark_offsets(self._at(partition, 0), timeout=5.0)
            offsets[:] = [one for one in offsets if low <= one < high]
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            offsets.clear()
        elif error is not None:
            raise KafkaException(error)
        elif offset is not None:
            if offset in offsets:
                found[partition, offset] = message
            offsets[:] = [one for one in offsets if one > offset]
        if not offsets:
            del left[partition]
            consumer.incremental_unassign([self._at(partition, 0)])
        elif error is not None:
            self._assign(consumer, left)  # a partition that stopped with an error cannot seek
        elif offset is not None and offsets[0] > offset + SEEK_DISTANCE:
            consumer.seek(self._at(partition, offsets[0]))
