"""A position in a topic, as people write it, and the offset it means in a partition. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Literal, NamedTuple

from distributary.config import parse_duration, parse_start
from distributary.errors import UsageError

Kind = Literal["earliest", "latest", "offset", "back", "time", "shift", "current"]


class OffsetSpec(NamedTuple):
    """A position: ``value`` is an offset, records back from the end, a time in ms, or records to shift by."""

    kind: Kind
    value: int = 0


class OffsetRange(NamedTuple):
    """The offsets of one partition: ``end`` is the next record's, ``at_time`` that of a given time.

    ``at_time`` is None if no time was given, or no record is as late.
    """

    first: int
    end: int
    at_time: int | None = None


def parse(text: str, clock: Callable[[], float] = time.time) -> OffsetSpec:
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
