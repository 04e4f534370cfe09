"""Consumer groups: their members, how far they have read, resetting and deleting them. Blocking calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from distributary.errors import GroupBusy, GroupMissing, TopicMissing
from distributary.kafka import librdkafka, naming, topic_offsets
from distributary.kafka.admin import Cluster
from distributary.kafka.kafka_errors import admin_error
from distributary.kafka.topic_offsets import OffsetSpec
from distributary.kafka.topics import PartitionId


@dataclass(frozen=True)
class Member:
    """A live member and the partitions that are assigned to it."""

    id: str
    client_id: str
    host: str
    partitions: tuple[PartitionId, ...]


@dataclass(frozen=True)
class Group:
    """A group; ``state`` is Kafka's name for it in lower case: stable, empty, dead …"""

    name: str
    state: str
    protocol: str
    coordinator: str
    members: tuple[Member, ...]

    @property
    def live(self) -> bool:
        """Whether it has members, or is about to."""
        return bool(self.members) or self.state in ("preparing_rebalancing", "completing_rebalancing")


@dataclass(frozen=True)
class PartitionProgress:
    """How far a group has read one partition; ``offset`` is None if it has not committed any."""

    topic: str
    partition: int
    offset: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Records that it has not read; None if that is unknown."""
        return None if self.offset is None or self.end is None else max(0, self.end - self.offset)


@dataclass(frozen=True)
class OffsetChange:
    """What a reset does to one partition; ``before`` is None if the group had no offset there."""

    topic: str
    partition: int
    before: int | None
    after: int


def list_groups(cluster: Cluster) -> list[tuple[str, str]]:
    """All groups with their states, by name."""
    admin, limit = cluster.admin, librdkafka.REQUEST_LIMIT
    found = cluster.wait_for_group(
        lambda: admin.list_consumer_groups(request_timeout=limit), "cannot list the groups"
    )
    return sorted((one.group_id, one.state.name.lower()) for one in found.valid)


def describe_group(cluster: Cluster, name: str) -> Group:
    """Describe a group; one that does not exist has the state ``dead``."""
    admin, limit = cluster.admin, librdkafka.REQUEST_LIMIT
    try:
        found = cluster.wait_for_group(
            lambda: admin.describe_consumer_groups([name], request_timeout=limit)[name], f"group {name}"
        )
    except GroupMissing:
        return Group(name, "dead", "", "", ())
    node = found.coordinator
    return Group(
        name=name,
        state=found.state.name.lower(),
        protocol=found.partition_assignor or "-",
        coordinator=f"{node.host}:{node.port} ({node.id})" if node else "-",
        members=tuple(_member(one) for one in found.members),
    )


def get_group(cluster: Cluster, name: str) -> Group:
    """Describe a group; raises GroupMissing if it does not exist."""
    group = describe_group(cluster, name)
    if group.state == "dead":
        raise GroupMissing(f"there is no group {name}", hint="List the groups with: distributary groups list")
    return group


def group_progress(cluster: Cluster, group: Group) -> list[PartitionProgress]:
    """How far a group is in each partition that it has committed or is assigned, by topic and partition."""
    committed = committed_offsets(cluster, group.name)
    members = {partition: member for member in group.members for partition in member.partitions}
    partitions = sorted(committed.keys() | members.keys())
    ends: dict[str, dict[int, int]] = {}
    for topic in {topic for topic, _ in partitions}:
        try:
            ends[topic] = topic_offsets.end_offsets(cluster.admin, topic)
        except TopicMissing:
            ends[topic] = {}
    return [
        PartitionProgress(
            topic=topic,
            partition=number,
            offset=committed.get((topic, number)),
            end=ends[topic].get(number),
            member=members.get((topic, number)),
        )
        for topic, number in partitions
    ]


def committed_offsets(cluster: Cluster, name: str) -> dict[PartitionId, int]:
    """The offsets that a group has committed."""
    # librdkafka's admin client crashes when it asks for offsets while there is no coordinator yet, or it has
    # moved (rd_kafka_cgrp_op without a group). Describing the group waits for its coordinator.
    describe_group(cluster, name)
    admin, request = cluster.admin, [ConsumerGroupTopicPartitions(name)]
    found = cluster.wait_for_group(
        lambda: admin.list_consumer_group_offsets(request, request_timeout=librdkafka.REQUEST_LIMIT)[name],
        f"the offsets of group {name}",
    )
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions if one.offset >= 0}


def plan_reset(
    cluster: Cluster, name: str, to: OffsetSpec, topics: Mapping[str, Sequence[int] | None]
) -> list[OffsetChange]:
    """What resetting a group means; ``topics`` has partitions by topic, or None for all of them.

    Raises GroupBusy if the group has live members, TopicMissing for an unknown topic or partition.
    """
    group = describe_group(cluster, name)
    if group.live:
        raise group_busy_error(group, "its offsets cannot be reset")
    committed = committed_offsets(cluster, name)
    changes = []
    for topic, numbers in topics.items():
        ranges = topic_offsets.offset_ranges(cluster, topic, to)
        for number in ranges if numbers is None else numbers:
            if number not in ranges:
                raise TopicMissing(
                    f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(ranges, default=0)}"
                )
            before = committed.get((topic, number))
            after = topic_offsets.resolve(to, ranges[number], before)
            changes.append(OffsetChange(topic, number, before, after))
    return changes


def reset_offsets(cluster: Cluster, name: str, changes: Iterable[OffsetChange]) -> None:
    """Commit the offsets of a plan. Kafka refuses it if a member has joined meanwhile."""
    offsets = [TopicPartition(one.topic, one.partition, one.after) for one in changes]
    futures = cluster.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name, offsets)], request_timeout=librdkafka.REQUEST_LIMIT
    )
    for one in cluster.wait(futures[name], f"group {name}").topic_partitions:
        if one.error is not None:
            raise admin_error(one.error, f"group {name}, {one.topic}-{one.partition}", cluster.servers)


def delete_group(cluster: Cluster, name: str) -> None:
    """Delete a group and its offsets; raises GroupBusy while it has members, or GroupMissing."""
    futures = cluster.admin.delete_consumer_groups([name], request_timeout=librdkafka.REQUEST_LIMIT)
    cluster.wait(futures[name], f"group {name}")


def check_group_free(cluster: Cluster, name: str, client_id: str, pattern: str | None) -> str:
    """Check that a client may join a group: its name by the convention, its members of one application.

    Returns a warning about the name, or ""; ``pattern`` is as for `naming.check_group`. Raises NameRefused or
    GroupBusy.
    """
    group = describe_group(cluster, name)
    warning = ""
    if group.state == "dead":  # the name of an existing group is not checked: it may predate the convention
        warning = naming.check_group(name, pattern)
    foreign = naming.foreign_client_ids((one.client_id for one in group.members), client_id)
    if foreign:
        raise GroupBusy(
            f"group {name} has live members of another application: {', '.join(foreign[:3])} "
            f"(this one is {naming.application(client_id)!r}, by its client id {client_id!r})",
            hint="Choose another group: two applications in one take each other's records. Or give --force",
        )
    return warning


def group_busy_error(group: Group, why: str) -> GroupBusy:
    """The error for a group that is in use."""
    members = ", ".join(sorted({f"{one.client_id} at {one.host}" for one in group.members})[:3])
    return GroupBusy(
        f"group {group.name} has live members ({members or group.state}): {why}",
        hint=f"Stop them first; see: distributary groups describe {group.name} --members",
    )


def _member(description: Any) -> Member:
    assigned = description.assignment.topic_partitions if description.assignment else []
    partitions = tuple(sorted((one.topic, one.partition) for one in assigned))
    return Member(
        description.member_id, description.client_id, description.host.removeprefix("/"), partitions
    )
