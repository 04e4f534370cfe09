"""What a reducer stores beside a mark: its watermark, how far each re-keyed source has come, and how far its
events. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distributary.model.position import Fingerprint, Mark

FILTERED_MARK_EVERY = 32
"""One of so many records that a view filters out in Real-Time Mode moves its mark all the same."""


class Source(NamedTuple):
    """Where a re-keyed record came from.

    ``attempt`` grows with every start of the re-keying query; ``row`` counts what one run of one of its
    tasks wrote, so that a task that is run again within an attempt repeats its numbers. ``crc`` is that of
    the source's record.
    """

    partition: int
    attempt: int
    offset: int
    row: int = 0
    crc: int = 0


class SourceProgress(NamedTuple):
    """How far one source partition has come through the re-keying query.

    ``offset`` and ``part`` are the furthest ever, ``crc`` the checksum of that record; ``at_offset``,
    ``at_part`` and ``at_row`` where the current attempt is (behind, while it repeats).
    """

    attempt: int
    offset: int
    part: int
    at_offset: int
    at_part: int
    at_row: int
    crc: int


class EventProgress(NamedTuple):
    """How far a reducer has folded its view's event feed (the topic with this id).

    Every event before ``offset`` is folded into every row, and the event at ``offset`` into the rows up to
    and with ``key`` (in the order of their keys); None: into none yet. ``crc`` is the checksum of the last
    event of which anything is folded; None when there is none.
    """

    topic: str
    offset: int
    key: str | None = None
    crc: int | None = None

    @property
    def order(self) -> tuple[int, bool, str]:
        """What is further is greater."""
        return self.offset, self.key is not None, self.key or ""

    @property
    def fingerprint(self) -> Fingerprint | None:
        """By which the last event of which anything is folded is recognised again."""
        if self.crc is None:
            return None
        return Fingerprint(self.offset if self.key is not None else self.offset - 1, self.crc)


def write_state(
    watermark: int, sources: dict[int, SourceProgress], reached: EventProgress | None = None
) -> str:
    """What is stored beside a mark: the watermark, how far each source came, and how far the events."""
    if not sources and reached is None:
        return str(watermark) if watermark else ""
    places = ";".join(f"{p}:{','.join(map(str, seen))}" for p, seen in sorted(sources.items()))
    if reached is None:
        return f"{watermark} {places}"
    # A key may hold anything, so it comes last.
    crc = "" if reached.crc is None else str(reached.crc)
    words = [reached.topic, str(reached.offset), crc, *([reached.key] if reached.key is not None else [])]
    return f"{watermark} {places} {':'.join(words)}"


def read_state(memo: str) -> tuple[int, dict[int, SourceProgress]]:
    """Read what ``write_state`` wrote."""
    watermark, places, _ = (*memo.split(" ", 2), "", "")[:3]
    sources: dict[int, SourceProgress] = {}
    for place in filter(None, places.split(";")):
        partition, _, numbers = place.partition(":")
        sources[int(partition)] = SourceProgress(*map(int, numbers.split(",")))
    return int(watermark or 0), sources


def read_event_progress(memo: str) -> EventProgress | None:
    """Read how far the events are; None when nothing was written since there were any."""
    words = memo.split(" ", 2)
    if len(words) < 3:
        return None
    topic, offset, crc, *key = words[2].split(":", 3)
    return EventProgress(topic, int(offset), key[0] if key else None, int(crc) if crc else None)


def is_repeat(sources: dict[int, SourceProgress], source: Source) -> bool:
    """Whether the re-keying query has sent this before; notes it when not (R7).

    It starts again from the end of a batch, so a later attempt repeats some, and
    is known by its record's place and part. Within an attempt Spark may run a
    task again, which repeats rows under their numbers. An earlier attempt that
    still writes is a zombie.
    """
    _, attempt, offset, row, crc = source
    seen = sources.get(source.partition)
    if seen is None:
        sources[source.partition] = SourceProgress(attempt, offset, 0, offset, 0, row, crc)
        return False
    if attempt < seen.attempt:
        return True
    part = 0
    if attempt == seen.attempt:
        if (offset, row) <= (seen.at_offset, seen.at_row):
            return True
        part = seen.at_part + 1 if offset == seen.at_offset else 0
    if (offset, part) > (seen.offset, seen.part):
        sources[source.partition] = SourceProgress(attempt, offset, part, offset, part, row, crc)
        return False
    sources[source.partition] = SourceProgress(attempt, seen.offset, seen.part, offset, part, row, seen.crc)
    return True


def source_fingerprints(memos: Iterable[str]) -> dict[int, Fingerprint]:
    """By which the furthest folded record of each source partition of a re-keyed view is recognised again."""
    found: dict[int, Fingerprint] = {}
    for memo in memos:
        for partition, seen in read_state(memo)[1].items():
            one = Fingerprint(seen.offset, seen.crc)
            found[partition] = max(one, found.get(partition, one))
    return found


def source_offsets(
    memos: Mapping[int, str], hops: Mapping[int, int], starts: Mapping[int, int]
) -> dict[int, int]:
    """How far each source partition of a re-keyed view is folded, by what its reducers remember."""
    reached = {p: max(at, hops.get(p, 0)) for p, at in starts.items()}
    for memo in memos.values():
        for partition, seen in read_state(memo)[1].items():
            reached[partition] = max(reached.get(partition, 0), seen.offset + 1)
    return reached


def folded_offset(mark: Mark | None, start: int) -> int:
    """The offset before which a partition is folded, for people: a record in parts counts as done."""
    if mark is None:
        return start
    return mark.offset + (1 if mark.part else 0)
