"""Consumer groups: who is in them, how far they are, setting them back. Blocking calls; each has an end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from distributary.errors import GroupBusy, GroupMissing, TopicMissing
from distributary.kafka import kafka_errors, naming, offset_spec, topic_offsets
from distributary.kafka.admin import Cluster
from distributary.kafka.offset_spec import Whence

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True)
class Member:
    """A live member and what it reads."""

    id: str
    client_id: str
    host: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Group:
    """A group; ``state`` is Kafka's word for it in lower case: stable, empty, dead …"""

    name: str
    state: str
    protocol: str
    coordinator: str
    members: tuple[Member, ...]

    @property
    def live(self) -> bool:
        """Whether somebody is in it, or about to be."""
        return bool(self.members) or self.state in ("preparing_rebalancing", "completing_rebalancing")


@dataclass(frozen=True)
class Progress:
    """How far a group is in one partition; ``offset`` is None where it has committed nothing."""

    topic: str
    partition: int
    offset: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Records that it has not read; None where that cannot be said."""
        return None if self.offset is None or self.end is None else max(0, self.end - self.offset)


@dataclass(frozen=True)
class Move:
    """One step of a reset."""

    topic: str
    partition: int
    before: int | None
    after: int


def listing(cluster: Cluster) -> list[tuple[str, str]]:
    """All groups with their states, by name."""
    admin = cluster.admin
    found = cluster.ask_group(
        lambda: admin.list_consumer_groups(request_timeout=kafka_errors.LIMIT), "the groups cannot be listed"
    )
    return sorted((one.group_id, one.state.name.lower()) for one in found.valid)


def describe(cluster: Cluster, name: str) -> Group:
    """Describe a group; one that there is not has the state ``dead``."""
    admin = cluster.admin
    try:
        seen = cluster.ask_group(
            lambda: admin.describe_consumer_groups([name], request_timeout=kafka_errors.LIMIT)[name],
            f"group {name}",
        )
    except GroupMissing:
        return Group(name, "dead", "", "", ())
    members = tuple(_member(one) for one in seen.members)
    place = seen.coordinator
    coordinator = f"{place.host}:{place.port} ({place.id})" if place else "-"
    return Group(name, seen.state.name.lower(), seen.partition_assignor or "-", coordinator, members)


def existing(cluster: Cluster, name: str) -> Group:
    """Describe a group that must be there; raises GroupMissing."""
    group = describe(cluster, name)
    if group.state == "dead":
        raise GroupMissing(f"there is no group {name}", hint="List the groups with: distributary groups list")
    return group


def progress(cluster: Cluster, group: Group) -> list[Progress]:
    """How far a group is in each partition that it has committed in or is given, by topic and partition."""
    committed = offsets(cluster, group.name)
    readers = {place: member for member in group.members for place in member.places}
    places = sorted(committed.keys() | readers.keys())
    ends: dict[str, dict[int, int]] = {}
    for topic in {topic for topic, _ in places}:
        try:
            ends[topic] = topic_offsets.end_offsets(cluster.admin, topic)
        except TopicMissing:
            ends[topic] = {}
    return [
        Progress(
            topic,
            number,
            committed.get((topic, number)),
            ends[topic].get(number),
            readers.get((topic, number)),
        )
        for topic, number in places
    ]


def offsets(cluster: Cluster, name: str) -> dict[Place, int]:
    """What a group has committed."""
    # librdkafka's admin client crashes when it asks for offsets while there is no coordinator yet, or it has
    # moved (rd_kafka_cgrp_op without a group). Describing the group waits for its coordinator.
    describe(cluster, name)
    admin, asked = cluster.admin, [ConsumerGroupTopicPartitions(name)]
    found = cluster.ask_group(
        lambda: admin.list_consumer_group_offsets(asked, request_timeout=kafka_errors.LIMIT)[name],
        f"the offsets of group {name}",
    )
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions if one.offset >= 0}


def plan_reset(
    cluster: Cluster, name: str, to: Whence, wanted: Mapping[str, Sequence[int] | None]
) -> list[Move]:
    """What setting a group to a place means; ``wanted`` has topics, each with partitions or None for all.

    Raises GroupBusy where the group has live members, TopicMissing for a topic that there is not.
    """
    group = describe(cluster, name)
    if group.live:
        raise busy(group, "its offsets are theirs")
    now = offsets(cluster, name)
    moves = []
    for topic, numbers in wanted.items():
        held = offset_spec.ranges(cluster, topic, to)
        for number in held if numbers is None else numbers:
            if number not in held:
                raise TopicMissing(
                    f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(held, default=0)}"
                )
            before = now.get((topic, number))
            moves.append(Move(topic, number, before, offset_spec.resolve(to, held[number], before)))
    return moves


def reset(cluster: Cluster, name: str, moves: Iterable[Move]) -> None:
    """Commit the offsets of a plan. Kafka refuses it when somebody has joined meanwhile."""
    places = [TopicPartition(one.topic, one.partition, one.after) for one in moves]
    asked = cluster.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name, places)], request_timeout=kafka_errors.LIMIT
    )
    answered = cluster.ask(asked[name], f"group {name}")
    for one in answered.topic_partitions:
        if one.error is not None:
            raise kafka_errors.named(one.error, f"group {name}, {one.topic}-{one.partition}", cluster.servers)


def delete(cluster: Cluster, name: str) -> None:
    """Forget a group and its offsets; raises GroupBusy while it has members, GroupMissing."""
    asked = cluster.admin.delete_consumer_groups([name], request_timeout=kafka_errors.LIMIT)
    cluster.ask(asked[name], f"group {name}")


def check_free(cluster: Cluster, name: str, client_id: str, pattern: str | None) -> str:
    """Check that a client may join a group: its name by the convention, its members of one application.

    Returns a note on the name, or ""; ``pattern`` is as for `names.check_group`. Raises NameRefused or
    GroupBusy.
    """
    group = describe(cluster, name)
    note = ""
    if group.state == "dead":  # an existing group is not checked: it may be older than the convention
        note = naming.check_group(name, pattern)
    others = naming.strangers((one.client_id for one in group.members), client_id)
    if others:
        raise GroupBusy(
            f"group {name} has live members of another application: {', '.join(others[:3])} "
            f"(this one is {naming.application(client_id)!r}, by its client id {client_id!r})",
            hint="Choose another group: two applications in one take each other's records. Or give --force",
        )
    return note


def busy(group: Group, why: str) -> GroupBusy:
    """The error for a group that is in use."""
    who = ", ".join(sorted({f"{one.client_id} at {one.host}" for one in group.members})[:3]) or group.state
    return GroupBusy(
        f"group {group.name} has live members ({who}): {why}",
        hint=f"Stop them first; see: distributary groups describe {group.name} --members",
    )


def _member(seen: Any) -> Member:
    given = seen.assignment.topic_partitions if seen.assignment else []
    places = tuple(sorted((one.topic, one.partition) for one in given))
    return Member(seen.member_id, seen.client_id, seen.host.removeprefix("/"), places)
