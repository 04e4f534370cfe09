"""Topics as an operator sees them: create, describe by partition, change and delete them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

from distributary.errors import KafkaRefused, TopicMissing
from distributary.kafka import config_admin, librdkafka, topic_offsets
from distributary.kafka.admin import Cluster
from distributary.kafka.kafka_errors import admin_error
from distributary.kafka.topics import wait_for_topic


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
class TopicDetails:
    """A topic in full. ``settings`` are those that were set for this topic."""

    name: str
    id: str
    internal: bool
    partitions: tuple[Partition, ...]
    settings: Mapping[str, str]

    @property
    def replication(self) -> int:
        """The number of replicas of a partition."""
        return max((len(one.replicas) for one in self.partitions), default=0)


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    *,
    validate_only: bool = False,
) -> None:
    """Create a topic; -1 leaves partitions or replication to the brokers. Raises why they refuse it.

    Returns when the topic is visible and its partitions have leaders, so that the next command finds it.
    """
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(settings))
    limit = librdkafka.REQUEST_LIMIT
    futures = cluster.admin.create_topics(
        [topic], validate_only=validate_only, request_timeout=limit, operation_timeout=limit
    )
    try:
        futures[name].result(limit + 5)
    except KafkaException as error:
        raise config_admin.settings_error(cluster, error, f"topic {name}", settings) from None
    if not validate_only:
        with contextlib.suppress(
            KafkaRefused
        ):  # a user may be allowed to create topics but not to describe them
            wait_for_topic(cluster.admin, name)


def describe_all_topics(cluster: Cluster, *, internal: bool = False) -> list[TopicDetails]:
    """All topics with their partitions, by name; Kafka's own topics only if ``internal``."""
    try:
        names = sorted(cluster.admin.list_topics(timeout=librdkafka.REQUEST_LIMIT).topics)
    except KafkaException as error:
        raise admin_error(error, "cannot list the topics", cluster.servers) from None
    found = _describe(cluster, names) if names else {}
    return [one for one in found.values() if internal or not one.internal]


def describe_topics(cluster: Cluster, names: Sequence[str]) -> list[TopicDetails]:
    """Describe topics with settings and offsets. Raises TopicMissing for the first missing one."""
    found = []
    for name, one in _describe(cluster, names).items():
        settings = {
            row.name: row.value or ""
            for row in config_admin.describe_config(cluster, "topic", name)
            if row.own
        }
        led = [p.number for p in one.partitions if p.leader is not None]  # only leaders know offsets
        first = topic_offsets.earliest_offsets(cluster.admin, name, led)
        end = topic_offsets.end_offsets(cluster.admin, name, led)
        partitions = tuple(
            Partition(
                number=p.number,
                leader=p.leader,
                replicas=p.replicas,
                in_sync=p.in_sync,
                first=first.get(p.number),
                end=end.get(p.number),
            )
            for p in one.partitions
        )
        found.append(TopicDetails(name, one.id, one.internal, partitions, settings))
    return found


def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Raise a topic's number of partitions to ``count``."""
    futures = cluster.admin.create_partitions(
        [NewPartitions(name, count)], request_timeout=librdkafka.REQUEST_LIMIT
    )
    cluster.wait(futures[name], f"topic {name}: {count} partitions")
    with contextlib.suppress(KafkaRefused):
        wait_for_topic(cluster.admin, name, count)


def delete_topics(cluster: Cluster, names: Iterable[str], *, if_exists: bool = False) -> list[str]:
    """Delete topics with their records; return the names of those that existed."""
    limit = librdkafka.REQUEST_LIMIT
    futures = cluster.admin.delete_topics(list(names), request_timeout=limit, operation_timeout=limit)
    deleted = []
    for name, future in futures.items():
        try:
            cluster.wait(future, f"topic {name}")
            deleted.append(name)
        except TopicMissing:
            if not if_exists:
                raise
    return deleted


def _describe(cluster: Cluster, names: Sequence[str]) -> dict[str, TopicDetails]:
    futures = cluster.admin.describe_topics(
        TopicCollection(list(names)), request_timeout=librdkafka.REQUEST_LIMIT
    )
    found = {}
    for name, future in futures.items():
        topic = cluster.wait(future, f"topic {name}")
        partitions = tuple(_partition(one) for one in sorted(topic.partitions, key=lambda one: int(one.id)))
        found[name] = TopicDetails(name, str(topic.topic_id), bool(topic.is_internal), partitions, {})
    return found


def _partition(description: Any) -> Partition:
    return Partition(
        number=int(description.id),
        leader=None if description.leader is None else int(description.leader.id),
        replicas=tuple(int(node.id) for node in description.replicas),
        in_sync=tuple(sorted(int(node.id) for node in description.isr)),
    )
