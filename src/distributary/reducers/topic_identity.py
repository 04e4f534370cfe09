"""Whether a topic still is the log that a build was made from (R8).

A broker that lost power, or an unclean election, may have cut off records that were folded already. If the
log has grown past the marks since, offsets alone do not show it. So the records at the marks are recognised
by their checksums when a query starts.

After that, a log can lose records only with an election: a leader that stays has all that it acknowledged. So
the leaders' epochs are read after reading records and before writing what came of them. If they are those
from before the records were recognised, everything was read from the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.record_lookup import RecordLookup
from distributary.model.position import Fingerprint, checksum

Expected = Iterable[tuple[int, Fingerprint]]
"""Partitions, and the records that must be there."""


class Truncated(Exception):
    """The topic lost records that were folded: it is not the same topic any more (R8)."""


class LeaderChanged(Exception):
    """A partition has another leader than before: what was read since may be of another log."""


class Leaders(NamedTuple):
    """The epochs of the leaders of a topic's partitions, from before its records were recognised."""

    topic: str
    epochs: Mapping[int, int]

    @classmethod
    def read(cls, admin: Any, topic: str) -> Leaders:
        """Read the epochs as they are now."""
        return cls(topic, topic_offsets.leader_epochs(admin, topic))

    def confirm(self, admin: Any, only: Collection[int] | None = None) -> None:
        """Raise LeaderChanged if a partition had an election since; ``only`` of these, if they are given."""
        known = self.epochs.keys() if only is None else self.epochs.keys() & set(only)
        self.compare(topic_offsets.leader_epochs(admin, self.topic, known))

    def compare(self, now: Mapping[int, int]) -> None:
        """Raise LeaderChanged if an epoch differs now. A partition that was added since had no mark."""
        for partition, epoch in now.items():
            if epoch != self.epochs.get(partition, epoch):
                was = self.epochs[partition]
                raise LeaderChanged(
                    f"partition {partition} of {self.topic} has a new leader (epoch {epoch}, it was {was})"
                )


_admins: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}


def admin_of(kafka: Kafka) -> Any:
    """The admin client of this process, which later tasks use, too."""
    name = kafka.bootstrap_servers, tuple(sorted(kafka.properties.items()))
    if name not in _admins:
        _admins[name] = librdkafka.admin(kafka)
    return _admins[name]


def checkable(
    expected: Expected, earliest: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, dict[int, int]]:
    """Choose what can be checked: by partition and offset, the checksum that must be found.

    What retention removed cannot be checked, and proves nothing. Raises Truncated when the log ends before a
    record.
    """
    checksums: dict[int, dict[int, int]] = {}
    for partition, (offset, crc) in expected:
        if partition in ends and offset >= ends[partition]:
            raise Truncated(f"partition {partition} ends at {ends[partition]}, the view stands at {offset}")
        if partition in earliest and offset >= earliest[partition]:
            checksums.setdefault(partition, {})[offset] = crc
    return checksums


def check_records(
    expected: Mapping[int, Mapping[int, int]],
    found: Mapping[tuple[int, int], int],
    compacted: Callable[[], bool],
) -> None:
    """Compare with the checksums that were found; raises Truncated for another record at the same offset.

    An offset without a record is due to compaction (``compacted`` returns whether that is possible), or to a
    log that was cut off and grew again.
    """
    for partition, offsets in expected.items():
        for offset, crc in offsets.items():
            actual = found.get((partition, offset))
            if actual == crc or (actual is None and compacted()):
                continue
            what = "no record" if actual is None else "another record"
            raise Truncated(f"partition {partition} has {what} at {offset} than the one that was folded")


def read_checksums(
    kafka: Kafka, topic: str, offsets: Mapping[int, Iterable[int]]
) -> dict[tuple[int, int], int]:
    """Read the checksums of the records at these offsets; raises KafkaException if Kafka does not respond."""
    found = fingerprints_at(kafka, topic, {partition: list(at) for partition, at in offsets.items()})
    return {(partition, one.offset): one.crc for partition, ones in found.items() for one in ones}


def fingerprints_at(
    kafka: Kafka, topic: str, offsets: Mapping[int, list[int]]
) -> dict[int, list[Fingerprint]]:
    """Read the fingerprints of the records at these offsets, of those that exist."""
    lookup = RecordLookup(kafka, topic, committed=False)
    try:
        found: dict[int, list[Fingerprint]] = {}
        for (partition, offset), message in lookup.read(offsets, limit=15.0).items():
            value = message.value()
            assert value is None or isinstance(value, bytes)
            one = Fingerprint(offset, checksum(message.timestamp()[1], value))
            found.setdefault(partition, []).append(one)
        return found
    finally:
        lookup.close()
