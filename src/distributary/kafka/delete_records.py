"""Deleting the oldest records of a topic: everything before an offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import TopicPartition

from distributary.errors import KafkaRefused, TopicMissing
from distributary.kafka import kafka_errors, offset_spec
from distributary.kafka.admin import Cluster
from distributary.kafka.offset_spec import Whence


class Cut(NamedTuple):
    """What goes in one partition: all from ``first`` up to, and without, ``before``."""

    topic: str
    partition: int
    first: int
    before: int

    @property
    def records(self) -> int:
        """How many records go, at most: offsets have gaps."""
        return self.before - self.first


def cuts(cluster: Cluster, topic: str, place: Whence, partitions: Sequence[int] | None) -> list[Cut]:
    """What deleting up to a place means; raises TopicMissing, also for a partition that there is not."""
    held = offset_spec.ranges(cluster, topic, place)
    chosen = held if partitions is None else partitions
    found = []
    for number in chosen:
        if number not in held:
            raise TopicMissing(f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(held)}")
        found.append(Cut(topic, number, held[number].first, offset_spec.resolve(place, held[number])))
    return found


def check(cluster: Cluster, given: Iterable[tuple[str, int, int]]) -> list[Cut]:
    """Check triples of topic, partition and offset; -1 is the end. Raises KafkaRefused beyond it."""
    found = []
    for topic, number, offset in given:
        place = Whence("latest") if offset == -1 else Whence("offset", offset)
        (cut,) = cuts(cluster, topic, place, [number])
        if offset > cut.before:
            raise KafkaRefused(
                f"topic {topic}, partition {number}: ends at {cut.before}, before {offset}",
                hint="Give an offset that there is, or -1 for all",
            )
        found.append(cut)
    return found


def delete(cluster: Cluster, wanted: Iterable[Cut]) -> None:
    """Delete; what is gone does not come back."""
    places = [TopicPartition(one.topic, one.partition, one.before) for one in wanted]
    asked = cluster.admin.delete_records(
        places, request_timeout=kafka_errors.LIMIT, operation_timeout=kafka_errors.LIMIT
    )
    for place, future in asked.items():
        cluster.ask(future, f"topic {place.topic}, partition {place.partition}")
