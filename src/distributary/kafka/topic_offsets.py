"""Offsets of a topic's partitions: parse, read and resolve them, and delete the records before one.

Calls that take a cluster or an admin client block. Offsets are those of committed records (the last stable
offset is the end), as every reader here sees them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from confluent_kafka import OFFSET_END, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from distributary.config import parse_duration, parse_start
from distributary.errors import KafkaRefused, TopicMissing, UsageError
from distributary.kafka import librdkafka
from distributary.kafka.admin import Cluster
from distributary.kafka.kafka_errors import NO_LEADER, UNKNOWN_LEADER, topic_error
from distributary.kafka.topics import LEADER_LIMIT, get_topic

# --- offsets as people write them -------------------------------------------------------------------------

OffsetKind = Literal["earliest", "latest", "offset", "back", "time", "shift", "current"]


class OffsetSpec(NamedTuple):
    """A position: ``value`` is an offset, records back from the end, a time in ms, or records to shift by."""

    kind: OffsetKind
    value: int = 0


class OffsetRange(NamedTuple):
    """The offsets of one partition: ``end`` is the next record's, ``at_time`` that of a given time.

    ``at_time`` is None if no time was given, or no record is as late.
    """

    first: int
    end: int
    at_time: int | None = None


def parse_offset(text: str, clock: Callable[[], float] = time.time) -> OffsetSpec:
    """Parse "earliest", "latest", 42, -10 (from the end), a time, or a duration ("15 m": that long ago)."""
    word = text.strip()
    if word in ("earliest", "beginning", "smallest"):
        return OffsetSpec("earliest")
    if word in ("latest", "end", "now", "largest"):
        return OffsetSpec("latest")
    if word.lstrip("-").isdigit():
        number = int(word)
        return OffsetSpec("back", -number) if word.startswith("-") else OffsetSpec("offset", number)
    return OffsetSpec("time", parse_time(word, clock))


def parse_time(text: str, clock: Callable[[], float] = time.time) -> int:
    """Parse a time in ms: ISO 8601 (UTC by default), or a duration before now ("15 m", "PT15M")."""
    try:
        return int((clock() - parse_duration(_from_iso_duration(text))) * 1000)
    except ValueError:
        pass
    try:
        # Kafka's tools write milliseconds after a dot and zones as +0100, which Python parses too.
        stamp = datetime.fromisoformat(parse_start(text))
    except ValueError:
        raise UsageError(
            f"{text!r} is not an offset or a time",
            hint='Give earliest, latest, an offset, -10 (from the end), 2026-01-31T08:00:00Z or "15 m" (ago)',
        ) from None
    return int(stamp.timestamp() * 1000)


def resolve(spec: OffsetSpec, range: OffsetRange, current: int | None = None) -> int:
    """The offset that a spec means in one partition, never before its first record or after its end.

    Raises UsageError if it is relative to the current offset and there is none.
    """
    if spec.kind in ("shift", "current") and current is None:
        raise UsageError(
            "the group has not committed an offset yet", hint="Give --to-earliest, --to-latest or a time"
        )
    offset = {
        "earliest": lambda: range.first,
        "latest": lambda: range.end,
        "offset": lambda: spec.value,
        "back": lambda: range.end - spec.value,
        "time": lambda: range.end if range.at_time is None else range.at_time,
        "shift": lambda: (current or 0) + spec.value,
        "current": lambda: current or 0,
    }[spec.kind]()
    return max(range.first, min(offset, range.end))


def _from_iso_duration(text: str) -> str:
    """Turn ISO's PT1H, which Kafka's tools accept, into 1h."""
    upper = text.strip().upper()
    if upper.startswith("PT"):
        return upper[2:].lower()
    if upper.startswith("P") and upper.endswith("D"):
        return upper[1:].lower()
    return text


# --- offsets of partitions ------------------------------------------------------------------------------

_query: Any = kafka_admin.OffsetSpec  # type: ignore[attr-defined]  # it is not declared


def earliest_offsets(admin: AdminClient, name: str, only: Collection[int] | None = None) -> dict[int, int]:
    """The first offset that still exists, by partition; ``only`` for these partitions if given."""
    return _offsets(admin, name, _query.earliest(), only)


def end_offsets(admin: AdminClient, name: str, only: Collection[int] | None = None) -> dict[int, int]:
    """The offset at or after which the next committed record will be, by partition; ``only`` as above."""
    return _offsets(admin, name, _query.latest(), only)


def end_offsets_and_epochs(admin: AdminClient, name: str) -> tuple[dict[int, int], dict[int, int]]:
    """The end offsets, and the epoch of each partition's leader, which changes with every election."""
    found = _results(admin, name, _query.latest(), None)
    return {p: one.offset for p, one in found.items()}, {p: one.leader_epoch for p, one in found.items()}


def leader_epochs(admin: AdminClient, name: str, only: Collection[int] | None = None) -> dict[int, int]:
    """The epoch of each partition's leader; ``only`` as above."""
    found = _results(admin, name, _query.latest(), only)
    return {number: one.leader_epoch for number, one in found.items()}


def offsets_at(admin: AdminClient, name: str, time_ms: int) -> dict[int, int]:
    """The first offset whose record has that time or a later one, by partition; the end if there is none."""
    ends = end_offsets(admin, name)
    found = _offsets(admin, name, _query.for_timestamp(time_ms))
    return {number: found[number] if found.get(number, -1) >= 0 else end for number, end in ends.items()}


def offset_ranges(cluster: Cluster, topic: str, spec: OffsetSpec) -> Mapping[int, OffsetRange]:
    """The offsets of each partition, with that of the spec's time if it is one. Raises TopicMissing."""
    first, end = earliest_offsets(cluster.admin, topic), end_offsets(cluster.admin, topic)
    at_time = offsets_at(cluster.admin, topic, spec.value) if spec.kind == "time" else {}
    return {number: OffsetRange(first[number], end[number], at_time.get(number)) for number in sorted(end)}


def read_offsets(
    admin: AdminClient, queries: Mapping[TopicPartition, Any], limit: float
) -> dict[TopicPartition, Any]:
    """Read where partitions begin or end (confluent's ``OffsetSpec``). Raises KafkaException.

    If a broker does not respond within ``limit`` seconds the library raises nothing and returns the offset
    -1001, which would be mistaken for a log that lost everything. -1 is a result: no record is as late.
    Partitions that were just created or moved are waited for.
    """
    deadline = time.monotonic() + min(limit, LEADER_LIMIT)
    refreshed = False
    while True:
        try:
            return _list_offsets(admin, queries, limit)
        except KafkaException as error:
            # The library asks the leaders that it last knew, and does not look for others by itself.
            code = error.args[0].code()
            retry = code in NO_LEADER or (code == UNKNOWN_LEADER and not refreshed)
            if not retry or time.monotonic() > deadline:
                raise
            if refreshed:
                time.sleep(0.05)
            refreshed = True
            for topic in {partition.topic for partition in queries}:
                admin.list_topics(topic, timeout=max(0.05, deadline - time.monotonic()))


def _list_offsets(
    admin: AdminClient, queries: Mapping[TopicPartition, Any], limit: float
) -> dict[TopicPartition, Any]:
    futures = admin.list_offsets(
        dict(queries), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=limit
    )
    found = {partition: future.result() for partition, future in futures.items()}
    for partition, one in found.items():
        if one.offset < OFFSET_END:
            reason = f"no answer about the offsets of {partition.topic}-{partition.partition}"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
    return found


def _results(admin: AdminClient, name: str, query: Any, only: Collection[int] | None) -> dict[int, Any]:
    numbers = range(get_topic(admin, name).partitions) if only is None else only
    queries = {TopicPartition(name, number): query for number in numbers}
    try:
        found = read_offsets(admin, queries, librdkafka.REQUEST_LIMIT) if queries else {}
    except KafkaException as error:
        raise topic_error(error, f"cannot read the offsets of topic {name}") from None
    return {partition.partition: one for partition, one in found.items()}


def _offsets(
    admin: AdminClient, name: str, query: Any, only: Collection[int] | None = None
) -> dict[int, int]:
    return {number: one.offset for number, one in _results(admin, name, query, only).items()}


# --- deleting records -------------------------------------------------------------------------------------


class Deletion(NamedTuple):
    """What is deleted in one partition: everything from ``first`` up to, but not including, ``before``."""

    topic: str
    partition: int
    first: int
    before: int

    @property
    def records(self) -> int:
        """The number of records deleted, at most: offsets have gaps."""
        return self.before - self.first


def plan_deletions(
    cluster: Cluster, topic: str, spec: OffsetSpec, partitions: Sequence[int] | None
) -> list[Deletion]:
    """What deleting up to an offset means; raises TopicMissing, also for an unknown partition."""
    ranges = offset_ranges(cluster, topic, spec)
    plan = []
    for number in ranges if partitions is None else partitions:
        if number not in ranges:
            raise TopicMissing(f"topic {topic} has no partition {number}", hint=f"It has 0 to {max(ranges)}")
        before = resolve(spec, ranges[number])
        plan.append(Deletion(topic, number, ranges[number].first, before))
    return plan


def check_deletions(cluster: Cluster, requested: Iterable[tuple[str, int, int]]) -> list[Deletion]:
    """Check triples of topic, partition and offset (-1: the end). Raises KafkaRefused beyond the end."""
    plan = []
    for topic, number, offset in requested:
        spec = OffsetSpec("latest") if offset == -1 else OffsetSpec("offset", offset)
        (one,) = plan_deletions(cluster, topic, spec, [number])
        if offset > one.before:
            raise KafkaRefused(
                f"topic {topic}, partition {number}: offset {offset} is beyond the end, {one.before}",
                hint="Give an offset up to the end, or -1 for all records",
            )
        plan.append(one)
    return plan


def delete_records(cluster: Cluster, plan: Iterable[Deletion]) -> None:
    """Delete the planned records; this cannot be undone."""
    partitions = [TopicPartition(one.topic, one.partition, one.before) for one in plan]
    futures = cluster.admin.delete_records(
        partitions, request_timeout=librdkafka.REQUEST_LIMIT, operation_timeout=librdkafka.REQUEST_LIMIT
    )
    for one, future in futures.items():
        cluster.wait(future, f"topic {one.topic}, partition {one.partition}")


def delete_records_before(admin: AdminClient, name: str, before: Mapping[int, int]) -> None:
    """Delete the records of each partition before an offset."""
    partitions = [TopicPartition(name, number, offset) for number, offset in before.items()]
    try:
        for future in (
            admin.delete_records(partitions, request_timeout=librdkafka.REQUEST_LIMIT).values()
            if partitions
            else ()
        ):
            future.result()
    except KafkaException as error:
        raise topic_error(error, f"cannot delete records of topic {name}") from None
