"""Dead letters: a record's own bytes, and in its headers why and from where; and the topics of them."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from distributary.kafka.topics import ensure_topic

Header = tuple[str, str | bytes | None]

PREFIX = "distributary-"

KEEP_MS = 30 * 24 * 3600 * 1000
"""How long dead letters are kept, unless somebody created their topic otherwise."""


def letter_headers(
    reason: str,
    topic: str,
    *,
    view: str | None = None,
    place: tuple[int, int] | None = None,
    key: bytes | None = None,
    timestamp: int | None = None,
    original: Iterable[Header] = (),
) -> list[Header]:
    """The headers of a dead letter: the reason, where the record was or was meant for, and its own headers.

    ``place`` is its partition and offset, where it had one already.
    """
    found: list[Header] = [("reason", reason)]
    if view is not None:
        found.append(("view", view))
    found.append(("topic", topic))
    if place is not None:
        found += [("partition", str(place[0])), ("offset", str(place[1]))]
    if key is not None:
        found.append(("key", key))
    if timestamp is not None:
        found.append(("timestamp", str(timestamp)))
    return [*((PREFIX + name, value) for name, value in found), *original]


def ensure_letters(admin: AdminClient, topic: str) -> None:
    """Create a topic for dead letters, unless there is one."""
    ensure_topic(admin, topic, 1, {"retention.ms": str(KEEP_MS)})
