"""A consumer's offsets: where it starts in a partition, what it has delivered, and what of that is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Consumer, TopicPartition

from distributary.client.record import Record
from distributary.kafka.topics import PartitionId

Offsets = Mapping[int, int] | Mapping[PartitionId, int]
Start = Literal["earliest", "latest"] | datetime | Offsets | None

LATEST = ("latest", "largest", "end")
"""The values of ``auto.offset.reset`` with which a group starts at the end."""


class OffsetTracker:
    """Offsets by partition, each the one after the last record."""

    def __init__(self) -> None:
        self._delivered: dict[PartitionId, int] = {}
        """Delivered since the last commit."""
        self._unread: dict[PartitionId, int] = {}
        """Delivered, but not yet read."""

    def delivered(self, record: Record) -> None:
        """A record was delivered: it may be committed, and is being read until `mark_read`."""
        partition = record.topic, record.partition
        self._delivered[partition] = self._unread[partition] = record.offset + 1

    def mark_read(self) -> list[TopicPartition]:
        """All that was delivered is read now; returns the offsets that were not read before."""
        offsets = topic_partitions(self._unread)
        self._unread.clear()
        return offsets

    def delivered_offsets(self) -> list[TopicPartition]:
        """The offsets after all that was delivered since the last commit."""
        return topic_partitions(self._delivered)

    def committed(self) -> None:
        """All that was delivered is committed."""
        self._delivered.clear()
        self._unread.clear()

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        """These partitions are read by another consumer, or from another offset."""
        for partition in partitions:
            self._delivered.pop(partition, None)
            self._unread.pop(partition, None)


class StartOffsets:
    """Where this consumer starts in each partition that is assigned to it."""

    def __init__(self, handle: Consumer, limit: float) -> None:
        self._handle = handle
        self._limit = limit
        """How long one request may take, in seconds."""
        self._known: dict[PartitionId, int | None] = {}
        """Partitions that were ever assigned: where they started, until something of them is committed."""

    def clear(self) -> None:
        """Forget all partitions: they start again when they are assigned."""
        self._known.clear()

    def committed(self, partitions: Iterable[TopicPartition]) -> None:
        """The group has committed offsets of these partitions, and continues there from now on."""
        self._known.update(dict.fromkeys(partition_ids(partitions)))

    def apply(self, partitions: list[TopicPartition], start: Start) -> list[TopicPartition]:
        """Set the offsets of assigned partitions. Raises KafkaException.

        Returns the start offsets where the group has not committed any, for the caller to commit: otherwise
        a crash before the first commit would start elsewhere and skip records.
        """
        new = []
        for one in partitions:
            offset = self._known.get((one.topic, one.partition), OFFSET_INVALID)
            if offset == OFFSET_INVALID:
                new.append(one)
            elif offset is not None:  # nothing was committed, so the group does not know where we started
                one.offset = offset
        starts = self._choose(new, start)
        for one in new:
            known = one.offset != OFFSET_INVALID
            self._known[one.topic, one.partition] = one.offset if known else None
        return starts

    def _choose(self, partitions: list[TopicPartition], start: Start) -> list[TopicPartition]:
        if start is None or not partitions:
            return []
        handle, limit = self._handle, self._limit
        known = set(
            partition_ids(one for one in handle.committed(partitions, timeout=limit) if one.offset >= 0)
        )
        new = [one for one in partitions if (one.topic, one.partition) not in known]
        if start == "earliest":
            for one in partitions:
                one.offset = OFFSET_BEGINNING
        elif start == "latest":
            for one in new:  # not where the group has been: what it has not read yet would be skipped
                one.offset = self._watermarks(one)[1]
        elif isinstance(start, datetime):
            at = round(start.timestamp() * 1000)
            queries = [TopicPartition(one.topic, one.partition, at) for one in partitions]
            found = {
                (one.topic, one.partition): one.offset
                for one in handle.offsets_for_times(queries, timeout=limit)
            }
            for one in partitions:
                at = found[one.topic, one.partition]
                one.offset = at if at >= 0 else self._watermarks(one)[1]  # no record is as late
        else:
            for one in partitions:
                given = start.get((one.topic, one.partition), start.get(one.partition))  # type: ignore[call-overload]
                if given is not None:
                    one.offset = given
        starts = [TopicPartition(one.topic, one.partition, one.offset) for one in new]
        for one in starts:
            if one.offset == OFFSET_BEGINNING:
                one.offset = self._watermarks(one)[0]
        return [one for one in starts if one.offset >= 0]

    def _watermarks(self, one: TopicPartition) -> tuple[int, int]:
        low, high = self._handle.get_watermark_offsets(one, timeout=self._limit)
        return int(low), int(high)


def topic_partitions(offsets: Mapping[PartitionId, int]) -> list[TopicPartition]:
    """Offsets as librdkafka has them."""
    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]


def partition_ids(found: Iterable[TopicPartition]) -> list[PartitionId]:
    """The partitions of librdkafka's offsets."""
    return [(one.topic, one.partition) for one in found]
