"""A consumer's offsets: where it starts in a partition, what it has delivered, and what of that is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

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


def set_start_offsets(
    handle: Consumer, partitions: list[TopicPartition], start: Start, limit: float
) -> list[TopicPartition]:
    """Set the offsets of ``partitions`` to where reading starts; those that ``start`` does not name stay.

    Returns the start offsets of those that the group has not committed, for the caller to commit.
    """
    if start is None or not partitions:
        return []
    known = {
        (one.topic, one.partition) for one in handle.committed(partitions, timeout=limit) if one.offset >= 0
    }
    new = [one for one in partitions if (one.topic, one.partition) not in known]
    if start == "earliest":
        for one in partitions:
            one.offset = OFFSET_BEGINNING
    elif start == "latest":
        for one in new:  # not where the group has been: what it has not read yet would be skipped
            one.offset = _watermarks(handle, one, limit)[1]
    elif isinstance(start, datetime):
        at = round(start.timestamp() * 1000)
        queries = [TopicPartition(one.topic, one.partition, at) for one in partitions]
        found = {
            (one.topic, one.partition): one.offset for one in handle.offsets_for_times(queries, timeout=limit)
        }
        for one in partitions:
            at = found[one.topic, one.partition]
            one.offset = at if at >= 0 else _watermarks(handle, one, limit)[1]  # no record is as late
    else:
        for one in partitions:
            given = start.get((one.topic, one.partition), start.get(one.partition))  # type: ignore[call-overload]
            if given is not None:
                one.offset = given
    starts = [TopicPartition(one.topic, one.partition, one.offset) for one in new]
    for one in starts:
        if one.offset == OFFSET_BEGINNING:
            one.offset = _watermarks(handle, one, limit)[0]
    return [one for one in starts if one.offset >= 0]


def topic_partitions(offsets: Mapping[PartitionId, int]) -> list[TopicPartition]:
    """Offsets as librdkafka has them."""
    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]


def partition_ids(found: Iterable[TopicPartition]) -> list[PartitionId]:
    """The partitions of librdkafka's offsets."""
    return [(one.topic, one.partition) for one in found]


def _watermarks(handle: Consumer, one: TopicPartition, limit: float) -> tuple[int, int]:
    low, high = handle.get_watermark_offsets(one, timeout=limit)
    return int(low), int(high)
