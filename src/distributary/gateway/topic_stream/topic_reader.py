"""Reads a topic onwards for one stream, outside of any group. Blocking calls, one at a time.

Nothing is read ahead of a slow client but what librdkafka holds; Kafka keeps the rest. Where retention takes
records before they were read, or the topic is made anew, that is told as a gap, never passed over. Partitions
that a topic gets are read from their first record.
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
from distributary.gateway.error_codes import refused
from distributary.gateway.rest_proxy.consumer_instance import SLICE
from distributary.gateway.rest_proxy.metadata_client import Cluster
from distributary.gateway.topic_stream.stream_cursor import Asked, begin, local_id
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.topics import Topic

_BATCH = 200
_LOOK = 2.0
"""Seconds after which a stream looks again whether its topic is still the same, with the same partitions."""
_PATIENCE = 10.0
"""Seconds for which a topic may be away, as one that is made anew is, before its streams end."""
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class Gap(NamedTuple):
    """Records of a partition that are gone: from the one wanted up to the first that there is.

    ``reason`` is "deleted", or "recreated" where it is another topic under the same name.
    """

    partition: int
    wanted: int
    first: int
    reason: str


class Follow:
    """One stream's reader; ``positions`` is the next offset of each partition of the topic ``topic_id``."""

    def __init__(self, kafka: Kafka, cluster: Cluster, topic: str, asked: Asked) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = asked.partitions
        self._consumer = librdkafka.consumer(
            kafka,
            asked.group or f"gateway-{uuid.uuid4()}",
            auto_offset_reset="error",
            queued_max_messages_kbytes=4096,
            fetch_wait_max_ms=200,
        )
        try:
            seen = cluster.seen(topic, fresh=True)
            self.topic_id, self._count = seen.id, seen.partitions
            first, ends = self._bounds()
            self.positions, gaps = begin(asked, first, ends, self._found(asked, ends), self.topic_id)
        except BaseException:
            self.close()
            raise
        self._gaps = [Gap(number, *gap) for number, gap in gaps.items()]
        self._looked = time.monotonic()
        self._lost = False
        self._away = 0.0
        self._assign(self.positions)

    def read(self, gave_up: threading.Event) -> list[Message | Gap]:
        """Wait a moment for records; gives what there is, in the order of each partition."""
        # Only now, since the positions are behind all that was told.
        if self._lost or time.monotonic() - self._looked > _LOOK:
            self._look()
        found: list[Message | Gap] = [*self._gaps]
        self._gaps = []
        first = self._consumer.poll(0 if found or gave_up.is_set() else SLICE)
        if first is None:
            return found
        for message in (first, *self._consumer.consume(_BATCH, 0)):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.code() in _GONE:
                self._lost = True
                return found
            elif not error.retriable():
                raise refused(error, f"topic {self._topic!r}")
        return found

    def told(self, one: Message | Gap) -> None:
        """Note that the client was told of something: its position is behind that."""
        if isinstance(one, Gap):
            self.positions[one.partition] = one.first
        else:
            self.positions[one.partition() or 0] = (one.offset() or 0) + 1

    def close(self) -> None:
        """End."""
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _found(self, asked: Asked, ends: Mapping[int, int]) -> dict[int, int]:
        if asked.time is not None:
            return topic_offsets.offsets_at(self._cluster.admin(), self._topic, asked.time)
        if not asked.group:
            return {}
        places = [TopicPartition(self._topic, number) for number in ends]
        try:
            known = self._consumer.committed(places, timeout=librdkafka.REQUEST_LIMIT)
        except KafkaException as error:
            raise refused(error.args[0], f"the group {asked.group!r}") from None
        return {one.partition: one.offset for one in known if one.offset >= 0}

    def _bounds(self) -> tuple[dict[int, int], dict[int, int]]:
        admin = self._cluster.admin()
        return topic_offsets.earliest_offsets(admin, self._topic), topic_offsets.end_offsets(
            admin, self._topic
        )

    def _assign(self, positions: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self._topic, *pair) for pair in positions.items()])

    def _look(self) -> None:
        """Go on by what the topic is now; one that is away is waited for."""
        try:
            seen = self._cluster.seen(self._topic, fresh=self._lost)
            if self._lost or (seen.id, seen.partitions) != (self.topic_id, self._count):
                self._go_on(seen)
            self._away, self._lost = 0.0, False
        except DistributaryError as error:
            self._lost = True
            self._away = self._away or time.monotonic()
            passing = isinstance(error, GatewayError | TopicMissing | KafkaUnavailable)
            if not passing or time.monotonic() - self._away > _PATIENCE:
                raise
        self._looked = time.monotonic()

    def _go_on(self, seen: Topic) -> None:
        asked = Asked(
            "earliest",
            offsets=dict(self.positions),
            partitions=self._partitions,
            topic=local_id(self.topic_id),
        )
        at, gaps = begin(asked, *self._bounds(), {}, seen.id)
        self._gaps += [Gap(number, *gap) for number, gap in gaps.items()]
        if seen.id != self.topic_id:
            self.positions = dict(at)  # the old ones mean nothing together with the new id
        self.positions |= {number: offset for number, offset in at.items() if number not in self.positions}
        self.topic_id, self._count = seen.id, seen.partitions
        self._assign(at)
