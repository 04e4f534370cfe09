"""What a reducer stores beside a mark: its watermark, and how far each re-keyed source has come. Pure."""

from __future__ import annotations

from typing import NamedTuple

from distributary.reduce.packed import Source


class Seen(NamedTuple):
    """How far one source partition has come through the re-keying query.

    ``offset`` and ``part`` are the furthest ever; ``at_offset`` and ``at_part``
    where the current attempt is (behind, while it repeats).
    """

    attempt: int
    offset: int
    part: int
    at_offset: int
    at_part: int


def write_memo(watermark: int, sources: dict[int, Seen]) -> str:
    """What is stored beside a mark: the watermark, and how far each source came."""
    if not sources:
        return str(watermark) if watermark else ""
    places = ";".join(f"{p}:{','.join(map(str, seen))}" for p, seen in sorted(sources.items()))
    return f"{watermark} {places}"


def read_memo(memo: str) -> tuple[int, dict[int, Seen]]:
    """Read what ``write_memo`` wrote."""
    watermark, _, places = memo.partition(" ")
    sources: dict[int, Seen] = {}
    for place in filter(None, places.split(";")):
        partition, _, numbers = place.partition(":")
        sources[int(partition)] = Seen(*map(int, numbers.split(",")))
    return int(watermark or 0), sources


def repeated(sources: dict[int, Seen], source: Source) -> bool:
    """Whether the re-keying query has sent this before; notes it when not (R7).

    It starts again from the end of a batch, so a later attempt repeats some.
    Within an attempt a source partition's records come in order and once; an
    earlier attempt that still writes is a zombie.
    """
    seen = sources.get(source.partition)
    if seen is None:
        sources[source.partition] = Seen(source.attempt, source.offset, 0, source.offset, 0)
        return False
    if source.attempt < seen.attempt:
        return True
    part = 0
    if (source.attempt, source.offset) == (seen.attempt, seen.at_offset):
        part = seen.at_part + 1
    fresh = (source.offset, part) > (seen.offset, seen.part)
    top = (source.offset, part) if fresh else (seen.offset, seen.part)
    sources[source.partition] = Seen(source.attempt, *top, source.offset, part)
    return not fresh
