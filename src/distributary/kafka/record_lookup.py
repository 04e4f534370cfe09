"""Single records of a topic, read again by their offsets."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka

NEAR = 2_000
"""Offsets to the next record that are read on rather than jumped over."""
_BATCH = 500


class RecordLookup:
    """Reads single records of one topic; keeps its connection until ``close``. For one thread.

    With ``committed`` False it sees every record that is in the log, also those of aborted transactions.
    """

    def __init__(self, kafka: Kafka, topic: str, *, committed: bool = True) -> None:
        self._kafka = kafka
        self._topic = topic
        self._committed = committed
        self._consumer: Consumer | None = None

    def read(
        self, wanted: Mapping[int, Collection[int]], limit: float = 30.0
    ) -> dict[tuple[int, int], Message]:
        """Read the records at these offsets of each partition, in one pass over each.

        What retention or compaction took, or never was there, is missing in the answer. Raises
        KafkaException when Kafka does not answer for ``limit`` seconds, and then may be called again.
        """
        left = {partition: sorted(offsets) for partition, offsets in wanted.items() if offsets}
        found: dict[tuple[int, int], Message] = {}
        if not left:
            return found
        consumer = self._connected()
        try:
            self._assign(consumer, left)
            deadline = time.monotonic() + limit
            while left:
                messages = consumer.consume(_BATCH, timeout=0.1)
                if messages:
                    deadline = time.monotonic() + limit
                elif time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "cannot read the record back"))
                for message in messages:
                    self._take(consumer, message, left, found)
            consumer.unassign()
        except BaseException:
            self.close()
            raise
        return found

    def next_records(self, starts: Mapping[int, int], limit: float = 30.0) -> dict[int, Message]:
        """Read the first record at or after an offset of each partition; where there is none it is missing.

        Raises as ``read`` does.
        """
        left, found = dict(starts), dict[int, Message]()
        if not left:
            return found
        consumer = self._connected()
        try:
            consumer.assign([self._place(*pair) for pair in left.items()])
            deadline = time.monotonic() + limit
            while left:
                messages = consumer.consume(_BATCH, timeout=0.1)
                if not messages and time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "cannot read the next record"))
                for message in messages:
                    self._first(consumer, message, left, found)
            consumer.unassign()
        except BaseException:
            self.close()
            raise
        return found

    def _first(
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
            low, high = consumer.get_watermark_offsets(self._place(partition, 0), timeout=5.0)
            if left[partition] < low < high:  # retention was faster
                left[partition] = low
                consumer.assign([self._place(*pair) for pair in left.items()])
                return
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        del left[partition]
        consumer.incremental_unassign([self._place(partition, 0)])

    def close(self) -> None:
        """Give the connection back; the next ``read`` makes another."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _connected(self) -> Consumer:
        if self._consumer is None:
            # The library waits for a fetch that is under way before it sends another, and one at the end of a
            # partition is under way for as long as the broker waits for records.
            words = {"auto_offset_reset": "error", "enable_partition_eof": True, "fetch_wait_max_ms": 10}
            make = librdkafka.consumer if self._committed else librdkafka.reader_of_all
            self._consumer = make(self._kafka, "distributary.lookup", **words)
        return self._consumer

    def _assign(self, consumer: Consumer, left: Mapping[int, list[int]]) -> None:
        consumer.assign([self._place(partition, offsets[0]) for partition, offsets in left.items()])

    def _place(self, partition: int, offset: int) -> TopicPartition:
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
            # Retention is past it, or the log ends before it.
            low, high = consumer.get_watermark_offsets(self._place(partition, 0), timeout=5.0)
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
            consumer.incremental_unassign([self._place(partition, 0)])
        elif error is not None:
            self._assign(consumer, left)  # a partition that stopped with an error cannot be moved
        elif offset is not None and offsets[0] > offset + NEAR:
            consumer.seek(self._place(partition, offsets[0]))
