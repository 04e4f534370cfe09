"""Reads a topic onwards for one stream, outside of any group. Blocking calls, one at a time.

Nothing is read ahead of a slow client but what librdkafka holds; Kafka keeps the rest. Where retention takes
records before they were read, that is told as a gap, never passed over.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from distributary.config.sections import Kafka
from distributary.gateway.proxy.instance import SLICE, refused
from distributary.gateway.stream.position import Asked, begin
from distributary.kafka import client, topics

_BATCH = 200


class Gap(NamedTuple):
    """Records of a partition that are gone: from the one wanted up to the first that there is."""

    partition: int
    wanted: int
    first: int


class Follow:
    """One stream's reader; ``positions`` is the next offset of each partition."""

    def __init__(self, kafka: Kafka, admin: AdminClient, topic: str, asked: Asked) -> None:
        self._admin = admin
        self._topic = topic
        self._consumer = client.consumer(
            kafka,
            asked.group or f"gateway-{uuid.uuid4()}",
            auto_offset_reset="error",
            queued_max_messages_kbytes=4096,
            fetch_wait_max_ms=200,
        )
        try:
            first, ends = topics.earliest_offsets(admin, topic), topics.end_offsets(admin, topic)
            self.positions, gaps = begin(asked, first, ends, self._found(asked, ends))
        except BaseException:
            self.close()
            raise
        self._gaps = [Gap(number, *pair) for number, pair in gaps.items()]
        self._lost = False
        self._assign()

    def read(self, gave_up: threading.Event) -> list[Message | Gap]:
        """Wait a moment for records; gives what there is, in the order of each partition."""
        if self._lost:  # only now: the positions are behind all that was told
            self._jump()
        found: list[Message | Gap] = [*self._gaps]
        self._gaps = []
        first = self._consumer.poll(0 if found or gave_up.is_set() else SLICE)
        if first is None:
            return found
        for message in (first, *self._consumer.consume(_BATCH, 0)):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
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
            return topics.offsets_at(self._admin, self._topic, asked.time)
        if not asked.group:
            return {}
        places = [TopicPartition(self._topic, number) for number in ends]
        try:
            known = self._consumer.committed(places, timeout=topics.TIMEOUT)
        except KafkaException as error:
            raise refused(error.args[0], f"the group {asked.group!r}") from None
        return {one.partition: one.offset for one in known if one.offset >= 0}

    def _assign(self) -> None:
        places = [TopicPartition(self._topic, *pair) for pair in self.positions.items()]
        self._consumer.assign(places)

    def _jump(self) -> None:
        """Go on with the first records that there still are."""
        first, ends = (
            topics.earliest_offsets(self._admin, self._topic),
            topics.end_offsets(self._admin, self._topic),
        )
        asked = Asked(offsets=dict(self.positions), partitions=frozenset(self.positions))
        at, gaps = begin(asked, first, ends, {})
        self._gaps += [Gap(number, *pair) for number, pair in gaps.items()]
        self._consumer.assign([TopicPartition(self._topic, *pair) for pair in at.items()])
        self._lost = False
