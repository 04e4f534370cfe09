"""Where to begin in a topic, in the words that people use, and which offsets that means."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from distributary.config import parse_duration, parse_start
from distributary.errors import UsageError
from distributary.kafka import topic_offsets
from distributary.kafka.admin import Cluster

KINDS = ("earliest", "latest", "offset", "back", "time", "shift", "current")


class Whence(NamedTuple):
    """A place: ``value`` is an offset, records back from the end, a time in ms, or records to shift by."""

    kind: str
    value: int = 0


class Range(NamedTuple):
    """What one partition holds: ``end`` is where the next record goes; ``timed`` is where a time is."""

    first: int
    end: int
    timed: int | None = None


def parse(text: str, clock: Callable[[], float] = time.time) -> Whence:
    """Read "earliest", "latest", 42, -10 (from the end), a time, or a duration ("15 m": so long ago)."""
    word = text.strip()
    if word in ("earliest", "beginning", "smallest"):
        return Whence("earliest")
    if word in ("latest", "end", "now", "largest"):
        return Whence("latest")
    if word.lstrip("-").isdigit():
        number = int(word)
        return Whence("offset", number) if not word.startswith("-") else Whence("back", -number)
    return Whence("time", moment(word, clock))


def moment(text: str, clock: Callable[[], float] = time.time) -> int:
    """Read a time in ms: ISO 8601 (UTC unless it says), or a duration before now ("15 m", "PT15M")."""
    try:
        return int((clock() - parse_duration(_plain(text))) * 1000)
    except ValueError:
        pass
    try:
        # Kafka's tools write the thousandths after a dot and zones as +0100, which Python reads too.
        stamp = datetime.fromisoformat(parse_start(text))
    except ValueError:
        raise UsageError(
            f"{text!r} is no place in a topic",
            hint='Give earliest, latest, an offset, -10 (from the end), 2026-01-31T08:00:00Z or "15 m" (ago)',
        ) from None
    return int(stamp.timestamp() * 1000)


def _plain(text: str) -> str:
    """Turn ISO's PT1H, as Kafka's tools take it, into 1h."""
    upper = text.strip().upper()
    if upper.startswith("PT"):
        return upper[2:].lower()
    if upper.startswith("P") and upper.endswith("D"):
        return upper[1:].lower()
    return text


def resolve(whence: Whence, held: Range, current: int | None = None) -> int:
    """The offset that a place means in one partition; never before its first record or after its end.

    Raises UsageError where it goes by the current offset and there is none.
    """
    if whence.kind in ("shift", "current") and current is None:
        raise UsageError(
            "the group has no offset there yet", hint="Give --to-earliest, --to-latest or a time"
        )
    wanted = {
        "earliest": lambda: held.first,
        "latest": lambda: held.end,
        "offset": lambda: whence.value,
        "back": lambda: held.end - whence.value,
        "time": lambda: held.end if held.timed is None else held.timed,
        "shift": lambda: (current or 0) + whence.value,
        "current": lambda: current or 0,
    }[whence.kind]()
    return max(held.first, min(wanted, held.end))


def ranges(cluster: Cluster, topic: str, whence: Whence) -> Mapping[int, Range]:
    """What each partition holds, and where the place's time is in it. Raises TopicMissing."""
    first, end = (
        topic_offsets.earliest_offsets(cluster.admin, topic),
        topic_offsets.end_offsets(cluster.admin, topic),
    )
    timed = topic_offsets.offsets_at(cluster.admin, topic, whence.value) if whence.kind == "time" else {}
    return {number: Range(first[number], end[number], timed.get(number)) for number in sorted(end)}
