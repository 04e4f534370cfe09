"""Whether partitions had an election since the records at a build's marks were recognised (R8).

Only with an election a log can lose records: a leader that stays has all that it acknowledged. So whoever
is about to write what was read from a log asks for the leaders' epochs, after reading and before writing. If
they are those from before the records at the marks were recognised, all was read from the same log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka, topic_offsets


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
