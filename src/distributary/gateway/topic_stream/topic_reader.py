"""Reads a topic for one stream, outside of any group. Blocking calls, one at a time.

For a slow client nothing is read ahead but what librdkafka buffers; Kafka keeps the rest. If retention
deletes records before they were read, or the topic is deleted and created again, that is reported as a gap.
New partitions of a topic are read from their first record.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from distributary.config.sections import Kafka
from distributary.errors import DistributaryError, GatewayError, KafkaUnavailable, TopicMissing
from distributary.gateway.error_codes import kafka_error
from distributary.gateway.rest_proxy.consumer_instance import POLL_SECONDS
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.topic_stream.stream_cursor import StreamRequest, start_positions, url_safe_id
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.kafka_errors import MISSING_TOPIC
from distributary.kafka.topics import Topic

_BATCH = 200
_CHECK_INTERVAL = 2.0
"""Seconds after which a stream checks whether its topic is still the same, with the same partitions."""
_MISSING_TIMEOUT = 10.0
"""Seconds for which a topic may be missing, as it is while it is created again, before its streams end."""
_TOPIC_GONE = MISSING_TOPIC | {KafkaError._UNKNOWN_PARTITION}


class Gap(NamedTuple):
    """Records of a partition that do not exist any more: from the wanted one up to the first that does.

    ``reason`` is "deleted", or "recreated" if it is another topic of the same name.
    """

    partition: int
    wanted: int
    first: int
    reason: str


class TopicReader:
    """The reader of one stream; ``positions`` is the next offset of each partition of ``topic_id``."""

    def __init__(self, kafka: Kafka, metadata: MetadataClient, topic: str, request: StreamRequest) -> None:
        self._metadata = metadata
        self._topic = topic
        self._partitions = request.partitions
        self._consumer = librdkafka.consumer(
            kafka,
            request.group or f"gateway-{uuid.uuid4()}",
            auto_offset_reset="error",
            queued_max_messages_kbytes=4096,
            fetch_wait_max_ms=200,
        )
        try:
            found = metadata.cached_topic(topic, refresh=True)
            self.topic_id, self._partition_count = found.id, found.partitions
            first, ends = self._bounds()
            offsets = self._requested_offsets(request, ends)
            self.positions, gaps = start_positions(request, first, ends, offsets, self.topic_id)
        except BaseException:
            self.close()
            raise
        self._gaps = [Gap(number, *gap) for number, gap in gaps.items()]
        """Gaps that were not returned by `read` yet."""
        self._checked = time.monotonic()
        self._lost = False
        """Whether the topic, or the records at a position, are gone."""
        self._missing_since = 0.0
        """When the topic was found missing; 0 if it is there."""
        self._assign(self.positions)

    def read(self, cancelled: threading.Event) -> list[Message | Gap]:
        """Wait briefly for records; returns what there is, in the order of each partition."""
        # Checked here because the positions are now past everything that was sent.
        if self._lost or time.monotonic() - self._checked > _CHECK_INTERVAL:
            self._check_topic()
        found: list[Message | Gap] = [*self._gaps]
        self._gaps = []
        first = self._consumer.poll(0 if found or cancelled.is_set() else POLL_SECONDS)
        if first is None:
            return found
        for message in (first, *self._consumer.consume(_BATCH, 0)):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.code() in _TOPIC_GONE:
                self._lost = True
                return found
            elif not error.retriable():
                raise kafka_error(error, f"topic {self._topic!r}")
        return found

    def advance(self, sent: Message | Gap) -> None:
        """Move the position past a record or gap that is sent to the client."""
        if isinstance(sent, Gap):
            self.positions[sent.partition] = sent.first
        else:
            self.positions[sent.partition() or 0] = (sent.offset() or 0) + 1

    def close(self) -> None:
        """Close the consumer."""
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _requested_offsets(self, request: StreamRequest, ends: Mapping[int, int]) -> dict[int, int]:
        if request.time is not None:
            return topic_offsets.offsets_at(self._metadata.admin(), self._topic, request.time)
        if not request.group:
            return {}
        partitions = [TopicPartition(self._topic, number) for number in ends]
        try:
            committed = self._consumer.committed(partitions, timeout=librdkafka.REQUEST_LIMIT)
        except KafkaException as error:
            raise kafka_error(error.args[0], f"the group {request.group!r}") from None
        return {one.partition: one.offset for one in committed if one.offset >= 0}

    def _bounds(self) -> tuple[dict[int, int], dict[int, int]]:
        admin = self._metadata.admin()
        return topic_offsets.earliest_offsets(admin, self._topic), topic_offsets.end_offsets(
            admin, self._topic
        )

    def _assign(self, positions: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self._topic, *pair) for pair in positions.items()])

    def _check_topic(self) -> None:
        """Continue with the topic as it is now; a topic that is missing is waited for."""
        try:
            found = self._metadata.cached_topic(self._topic, refresh=self._lost)
            if self._lost or (found.id, found.partitions) != (self.topic_id, self._partition_count):
                self._continue_with(found)
            self._missing_since, self._lost = 0.0, False
        except DistributaryError as error:
            self._lost = True
            self._missing_since = self._missing_since or time.monotonic()
            retriable = isinstance(error, GatewayError | TopicMissing | KafkaUnavailable)
            if not retriable or time.monotonic() - self._missing_since > _MISSING_TIMEOUT:
                raise
        self._checked = time.monotonic()

    def _continue_with(self, topic: Topic) -> None:
        request = StreamRequest(
            start="earliest",
            offsets=dict(self.positions),
            partitions=self._partitions,
            topic_id=url_safe_id(self.topic_id),
        )
        starts, gaps = start_positions(request, *self._bounds(), {}, topic.id)
        self._gaps += [Gap(number, *gap) for number, gap in gaps.items()]
        if topic.id != self.topic_id:
            self.positions = dict(starts)  # the old offsets mean nothing with the new id
        added = {number: offset for number, offset in starts.items() if number not in self.positions}
        self.positions |= added
        self.topic_id, self._partition_count = topic.id, topic.partitions
        self._assign(starts)
