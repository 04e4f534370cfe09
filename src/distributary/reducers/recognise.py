"""Whether a topic still is the log that a build was made from: its records are recognised again (R8).

A broker that lost power, or an unclean election, may have cut off records that were folded already. If the
log has grown past the marks since, offsets alone do not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from distributary.config.sections import Kafka
from distributary.kafka.record_lookup import RecordLookup
from distributary.model.fingerprint import Fingerprint, checksum
from distributary.reducers.start_offsets import Truncated

Expected = Iterable[tuple[int, Fingerprint]]
"""Partitions, and what must be found there."""


def to_look_at(
    expected: Expected, earliest: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, dict[int, int]]:
    """Choose what can be checked: by partition and offset the checksum that must be found.

    What retention took cannot be, and proves nothing. Raises Truncated when the log ends before a record.
    """
    wanted: dict[int, dict[int, int]] = {}
    for partition, (offset, crc) in expected:
        if partition in ends and offset >= ends[partition]:
            raise Truncated(f"partition {partition} ends at {ends[partition]}, the view stands at {offset}")
        if partition in earliest and offset >= earliest[partition]:
            wanted.setdefault(partition, {})[offset] = crc
    return wanted


def judge(
    wanted: Mapping[int, Mapping[int, int]],
    found: Mapping[tuple[int, int], int],
    compacted: Callable[[], bool],
) -> None:
    """Compare with the checksums that were found; raises Truncated for another record in the same place.

    A place without a record is compaction's work (``compacted`` says whether that can be), or that of a
    log that was cut off and grew again.
    """
    for partition, offsets in wanted.items():
        for offset, crc in offsets.items():
            there = found.get((partition, offset))
            if there == crc or (there is None and compacted()):
                continue
            what = "no record" if there is None else "another record"
            raise Truncated(f"partition {partition} has {what} at {offset} than the one that was folded")


def read_checksums(
    kafka: Kafka, topic: str, wanted: Mapping[int, Mapping[int, int]]
) -> dict[tuple[int, int], int]:
    """Read the records at these offsets; raises KafkaException when Kafka does not answer."""
    found = fingerprints_at(kafka, topic, {p: list(offsets) for p, offsets in wanted.items()})
    return {(partition, one.offset): one.crc for partition, some in found.items() for one in some}


def fingerprints_at(
    kafka: Kafka, topic: str, wanted: Mapping[int, list[int]]
) -> dict[int, list[Fingerprint]]:
    """Read the fingerprints of the records at these offsets, of those that are there."""
    lookup = RecordLookup(kafka, topic, committed=False)
    try:
        found: dict[int, list[Fingerprint]] = {}
        for (partition, offset), message in lookup.read(wanted, limit=15.0).items():
            value = message.value()
            assert value is None or isinstance(value, bytes)
            one = Fingerprint(offset, checksum(message.timestamp()[1], value))
            found.setdefault(partition, []).append(one)
        return found
    finally:
        lookup.close()
