"""Observes a Kafka cluster. Blocking; each call has a time-out."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # its exports are not declared

from distributary.config.sections import Kafka
from distributary.control.observation import Ends, KafkaObservation, NextRecord
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.record_lookup import RecordLookup

TIMEOUT = 2.5
"""Of each request to Kafka, in seconds."""
FIRST_MAX_AGE = 10.0
"""Seconds for which first offsets are cached: they change by retention only."""


class KafkaMonitor:
    """Observes one cluster; for one thread at a time."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._admin: Any = None
        self._first: tuple[float, dict[str, Ends]] = (0.0, {})

    def observe(self, topics: set[str]) -> KafkaObservation:
        """Describe the cluster and these topics. Raises KafkaException."""
        if self._admin is None:
            self._admin = librdkafka.admin(self._kafka)
        metadata = self._admin.list_topics(timeout=TIMEOUT)
        leaderless, under_replicated, readable = [], [], []
        for topic in sorted({*topics, self._kafka.commands_topic} & metadata.topics.keys()):
            for number, partition in sorted(metadata.topics[topic].partitions.items()):
                name = f"{topic}-{number}"
                if partition.leader < 0:
                    leaderless.append(name)
                elif topic in topics:
                    readable.append(TopicPartition(topic, number))
                if len(partition.isrs) < len(partition.replicas):
                    under_replicated.append(name)
        at, first = self._first
        if time.monotonic() - at > FIRST_MAX_AGE or not {one.topic for one in readable} <= first.keys():
            first = self._offsets(readable, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            self._first = (time.monotonic(), first)
        ends = self._offsets(readable, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return KafkaObservation(
            leaderless=tuple(leaderless), under_replicated=tuple(under_replicated), ends=ends, first=first
        )

    def next_records(self, topic: str, offsets: dict[int, int]) -> dict[int, NextRecord | None]:
        """Find the first committed record at or after each offset, if any. Raises KafkaException."""
        lookup = RecordLookup(self._kafka, topic)
        try:
            found = lookup.next_records(offsets, limit=TIMEOUT)
        finally:
            lookup.close()
        records = {
            partition: NextRecord(partition, message.offset() or 0, message.timestamp()[1])
            for partition, message in found.items()
        }
        return {partition: records.get(partition) for partition in offsets}

    def _offsets(self, partitions: list[TopicPartition], spec: Any) -> dict[str, Ends]:
        found: dict[str, dict[int, int]] = {}
        if not partitions:
            return {}
        for partition, result in topic_offsets.read_offsets(
            self._admin, dict.fromkeys(partitions, spec), TIMEOUT
        ).items():
            found.setdefault(partition.topic, {})[partition.partition] = result.offset
        return dict(found)
