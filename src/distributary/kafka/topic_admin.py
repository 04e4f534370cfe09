"""Topics as an operator sees them: made, described by partition, changed, deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

from distributary.errors import KafkaRefused, TopicMissing
from distributary.kafka import config_admin, kafka_errors, topic_offsets
from distributary.kafka.admin import Cluster


@dataclass(frozen=True)
class Partition:
    """Where one partition is; ``leader`` is None while it has none."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first: int | None = None
    end: int | None = None

    @property
    def under_replicated(self) -> bool:
        """Whether a replica is behind."""
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True)
class Detail:
    """All of a topic. ``settings`` are those that were set for it."""

    name: str
    id: str
    internal: bool
    partitions: tuple[Partition, ...]
    settings: Mapping[str, str]

    @property
    def replication(self) -> int:
        """How many replicas a partition has."""
        return max((len(one.replicas) for one in self.partitions), default=0)


def create(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    *,
    validate_only: bool = False,
) -> None:
    """Make a topic; -1 leaves partitions or replication to the brokers. Raises what they refuse it for.

    Returns when the topic is seen and its partitions have leaders, so that the next command finds it.
    """
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(settings))
    asked = cluster.admin.create_topics(
        [wanted],
        validate_only=validate_only,
        request_timeout=kafka_errors.LIMIT,
        operation_timeout=kafka_errors.LIMIT,
    )
    try:
        asked[name].result(kafka_errors.LIMIT + 5)
    except KafkaException as error:
        raise config_admin.refused(cluster, error, f"topic {name}", settings) from None
    if not validate_only:
        with contextlib.suppress(KafkaRefused):  # who may make a topic need not be allowed to describe it
            topic_offsets.wait_for_topic(cluster.admin, name)


def listing(cluster: Cluster, *, internal: bool = False) -> list[Detail]:
    """All topics with their partitions, by name; those of Kafka itself only where asked for."""
    try:
        names = sorted(cluster.admin.list_topics(timeout=kafka_errors.LIMIT).topics)
    except KafkaException as error:
        raise kafka_errors.named(error, "the topics cannot be listed", cluster.servers) from None
    found = _described(cluster, names) if names else {}
    return [one for one in found.values() if internal or not one.internal]


def describe(cluster: Cluster, names: Sequence[str]) -> list[Detail]:
    """Describe topics with settings and offsets. Raises TopicMissing for the first that is not there."""
    found = []
    for name, one in _described(cluster, names).items():
        settings = {
            row.name: row.value or "" for row in config_admin.describe(cluster, "topic", name) if row.own
        }
        led = [p.number for p in one.partitions if p.leader is not None]  # the others nobody can tell of
        first = topic_offsets.earliest_offsets(cluster.admin, name, led)
        end = topic_offsets.end_offsets(cluster.admin, name, led)
        partitions = tuple(
            Partition(p.number, p.leader, p.replicas, p.in_sync, first.get(p.number), end.get(p.number))
            for p in one.partitions
        )
        found.append(Detail(name, one.id, one.internal, partitions, settings))
    return found


def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Raise a topic's count of partitions."""
    asked = cluster.admin.create_partitions([NewPartitions(name, count)], request_timeout=kafka_errors.LIMIT)
    cluster.ask(asked[name], f"topic {name}: {count} partitions")
    with contextlib.suppress(KafkaRefused):
        topic_offsets.wait_for_topic(cluster.admin, name, count)


def delete(cluster: Cluster, names: Iterable[str], *, if_exists: bool = False) -> list[str]:
    """Delete topics with their records; give the names of those that were there."""
    asked = cluster.admin.delete_topics(
        list(names), request_timeout=kafka_errors.LIMIT, operation_timeout=kafka_errors.LIMIT
    )
    done = []
    for name, future in asked.items():
        try:
            cluster.ask(future, f"topic {name}")
            done.append(name)
        except TopicMissing:
            if not if_exists:
                raise
    return done


def _described(cluster: Cluster, names: Sequence[str]) -> dict[str, Detail]:
    asked = cluster.admin.describe_topics(TopicCollection(list(names)), request_timeout=kafka_errors.LIMIT)
    found = {}
    for name, future in asked.items():
        seen = cluster.ask(future, f"topic {name}")
        partitions = tuple(_partition(one) for one in sorted(seen.partitions, key=lambda one: int(one.id)))
        found[name] = Detail(name, str(seen.topic_id), bool(seen.is_internal), partitions, {})
    return found


def _partition(seen: Any) -> Partition:
    leader = None if seen.leader is None else int(seen.leader.id)
    return Partition(
        int(seen.id),
        leader,
        tuple(int(node.id) for node in seen.replicas),
        tuple(sorted(int(node.id) for node in seen.isr)),
    )
