"""Whether partitions had an election since the records at a build's marks were recognised (R8).

Only with an election a log can lose records: a leader that stays has all that it acknowledged. So whoever
is about to write what was read from a log asks for the leaders' epochs, after reading and before writing. If
they are those from before the records at the marks were recognised, all was read from the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka, topic_offsets
from distributary.kafka.record_lookup import RecordLookup
from distributary.model.position import Fingerprint, checksum


class Truncated(Exception):
    """The topic ends before where the build stands: it is not the same topic any more (R8)."""


class LeaderChanged(Exception):
    """A partition has another leader than before: what was read since may be of another log."""


class Leaders(NamedTuple):
    """The epochs of the leaders of a topic's partitions, from before its records were recognised."""

    topic: str
    epochs: Mapping[int, int]

    @classmethod
    def read(cls, admin: Any, topic: str) -> Leaders:
        """Ask for the epochs as they are now."""
        return cls(topic, topic_offsets.leader_epochs(admin, topic))

    def confirm(self, admin: Any, only: Collection[int] | None = None) -> None:
        """Raise LeaderChanged if a partition had an election since; ``only`` of these, if they are given."""
        known = self.epochs.keys() if only is None else self.epochs.keys() & set(only)
        self.compare(topic_offsets.leader_epochs(admin, self.topic, known))

    def compare(self, now: Mapping[int, int]) -> None:
        """Raise LeaderChanged if an epoch is another one now. A partition that came since had no mark."""
        for partition, epoch in now.items():
            if epoch != self.epochs.get(partition, epoch):
                was = self.epochs[partition]
                raise LeaderChanged(
                    f"partition {partition} of {self.topic} has a new leader (epoch {epoch}, it was {was})"
                )


_admins: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}


def admin_of(kafka: Kafka) -> Any:
    """The client of this process, which stays for the tasks that come after this one."""
    name = kafka.bootstrap_servers, tuple(sorted(kafka.properties.items()))
    if name not in _admins:
        _admins[name] = librdkafka.admin(kafka)
    return _admins[name]


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
