"""What a reducer stores beside a mark: its watermark, how far each re-keyed source has come, and how far its
events. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from distributary.model.fingerprint import Fingerprint
from distributary.reducers.record_codec import Source


class Seen(NamedTuple):
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


class Reached(NamedTuple):
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


def write_memo(watermark: int, sources: dict[int, Seen], reached: Reached | None = None) -> str:
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


def read_memo(memo: str) -> tuple[int, dict[int, Seen]]:
    """Read what ``write_memo`` wrote."""
    watermark, places, _ = (*memo.split(" ", 2), "", "")[:3]
    sources: dict[int, Seen] = {}
    for place in filter(None, places.split(";")):
        partition, _, numbers = place.partition(":")
        sources[int(partition)] = Seen(*map(int, numbers.split(",")))
    return int(watermark or 0), sources


def read_reached(memo: str) -> Reached | None:
    """Read how far the events are; None when nothing was written since there were any."""
    words = memo.split(" ", 2)
    if len(words) < 3:
        return None
    topic, offset, crc, *key = words[2].split(":", 3)
    return Reached(topic, int(offset), key[0] if key else None, int(crc) if crc else None)


def repeated(sources: dict[int, Seen], source: Source) -> bool:
    """Whether the re-keying query has sent this before; notes it when not (R7).

    It starts again from the end of a batch, so a later attempt repeats some, and
    is known by its record's place and part. Within an attempt Spark may run a
    task again, which repeats rows under their numbers. An earlier attempt that
    still writes is a zombie.
    """
    _, attempt, offset, row, crc = source
    seen = sources.get(source.partition)
    if seen is None:
        sources[source.partition] = Seen(attempt, offset, 0, offset, 0, row, crc)
        return False
    if attempt < seen.attempt:
        return True
    part = 0
    if attempt == seen.attempt:
        if (offset, row) <= (seen.at_offset, seen.at_row):
            return True
        part = seen.at_part + 1 if offset == seen.at_offset else 0
    if (offset, part) > (seen.offset, seen.part):
        sources[source.partition] = Seen(attempt, offset, part, offset, part, row, crc)
        return False
    sources[source.partition] = Seen(attempt, seen.offset, seen.part, offset, part, row, seen.crc)
    return True


def source_fingerprints(memos: Iterable[str]) -> dict[int, Fingerprint]:
    """By which the furthest folded record of each source partition of a re-keyed view is recognised again."""
    found: dict[int, Fingerprint] = {}
    for memo in memos:
        for partition, seen in read_memo(memo)[1].items():
            one = Fingerprint(seen.offset, seen.crc)
            found[partition] = max(one, found.get(partition, one))
    return found
