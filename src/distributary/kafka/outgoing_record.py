"""A record on its way to Kafka, and the dead letter that it becomes where it cannot be used.

A dead letter is the record's own bytes; its headers say why it is one and where it came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from distributary.kafka.topics import ensure_topic

Header = tuple[str, str | bytes | None]

HEADER_PREFIX = "distributary-"
RETENTION_MS = 30 * 24 * 3600 * 1000
"""The retention of a dead-letter topic that we create."""


class OutgoingRecord(NamedTuple):
    """A record to be written. A ``partition`` of -1 leaves the choice, a ``timestamp`` (ms) of 0 means now.

    ``reason`` is not "" if it has become a dead letter, and says why. ``sender`` is the user that sent it, if
    known: slow checks of one user's records do not delay another's.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: tuple[Header, ...] = ()
    timestamp: int = 0
    reason: str = ""
    sender: str = ""

    def __str__(self) -> str:
        """Describe the record in a message: enough to find it, short enough to print."""
        target = f"topic {self.topic}" + (f" partition {self.partition}" if self.partition >= 0 else "")
        key = "without a key" if self.key is None else f"with key {_short(self.key)}"
        size = "with no value" if self.value is None else f"of {len(self.value)} bytes"
        return f"the record {size} {key} for {target}"


def dead_letter_headers(
    reason: str,
    topic: str,
    *,
    view: str | None = None,
    position: tuple[int, int] | None = None,
    key: bytes | None = None,
    timestamp: int | None = None,
    original: Iterable[Header] = (),
) -> list[Header]:
    """The headers of a dead letter: the reason, the record's topic, and its own headers.

    ``position`` is its partition and offset, if it was already in Kafka.
    """
    found: list[Header] = [("reason", reason)]
    if view is not None:
        found.append(("view", view))
    found.append(("topic", topic))
    if position is not None:
        found += [("partition", str(position[0])), ("offset", str(position[1]))]
    if key is not None:
        found.append(("key", key))
    if timestamp is not None:
        found.append(("timestamp", str(timestamp)))
    return [*((HEADER_PREFIX + name, value) for name, value in found), *original]


def ensure_dead_letter_topic(admin: AdminClient, topic: str) -> None:
    """Create a topic for dead letters if it does not exist."""
    ensure_topic(admin, topic, 1, {"retention.ms": str(RETENTION_MS)})


def _short(key: bytes) -> str:
    text = repr(key)[1:]
    return text if len(text) <= 60 else text[:57] + "…'"
