"""What the monitor asks of a real Kafka. Blocking; each call has an end."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # its exports are not declared

from distributary.config.sections import Kafka
from distributary.control.observation import Ends, KafkaSight, Oldest
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.record_lookup import RecordLookup

ANSWER = 2.5
"""Seconds that Kafka has for one answer."""
FIRST = 10.0
"""Seconds for which it is believed where topics begin: only retention moves that."""


class KafkaEye:
    """Looks at one cluster; for one thread at a time."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._admin: Any = None
        self._first: tuple[float, dict[str, Ends]] = (0.0, {})

    def look(self, names: set[str]) -> KafkaSight:
        """Describe the cluster, and these topics. Raises KafkaException."""
        if self._admin is None:
            self._admin = librdkafka.admin(self._kafka)
        seen = self._admin.list_topics(timeout=ANSWER)
        leaderless, thin, led = [], [], []
        for name in sorted({*names, self._kafka.commands_topic} & seen.topics.keys()):
            for number, partition in sorted(seen.topics[name].partitions.items()):
                place = f"{name}-{number}"
                if partition.leader < 0:
                    leaderless.append(place)
                elif name in names:
                    led.append(TopicPartition(name, number))
                if len(partition.isrs) < len(partition.replicas):
                    thin.append(place)
        at, first = self._first
        if time.monotonic() - at > FIRST or not {place.topic for place in led} <= first.keys():
            first = self._offsets(led, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            self._first = (time.monotonic(), first)
        ends = self._offsets(led, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return KafkaSight(True, "", tuple(leaderless), tuple(thin), ends, first)

    def next_records(self, topic: str, offsets: dict[int, int]) -> dict[int, Oldest | None]:
        """The first committed record at or after each offset; None: there is none. Raises KafkaException."""
        lookup = RecordLookup(self._kafka, topic)
        try:
            found = lookup.next_records(offsets, limit=ANSWER)
        finally:
            lookup.close()
        seen = {p: Oldest(p, message.offset() or 0, message.timestamp()[1]) for p, message in found.items()}
        return {partition: seen.get(partition) for partition in offsets}

    def _offsets(self, places: list[TopicPartition], spec: Any) -> dict[str, Ends]:
        found: dict[str, dict[int, int]] = {}
        if not places:
            return {}
        for place, one in topic_offsets.read_offsets(
            self._admin, dict.fromkeys(places, spec), ANSWER
        ).items():
            found.setdefault(place.topic, {})[place.partition] = one.offset
        return dict(found)
