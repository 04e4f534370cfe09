"""What a reducer stores beside a mark: its watermark, how far each re-keyed source has come, and how far its
events. Pure.
"""

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


class Reached(NamedTuple):
    """How far a reducer has folded its view's event feed (the topic with this id).

    Every event before ``offset`` is folded into every row, and the event at ``offset`` into the rows up to
    and with ``key`` (in the order of their keys); None: into none yet.
    """

    topic: str
    offset: int
    key: str | None = None

    @property
    def order(self) -> tuple[int, bool, str]:
        """What is further is greater."""
        return self.offset, self.key is not None, self.key or ""


def write_memo(watermark: int, sources: dict[int, Seen], reached: Reached | None = None) -> str:
    """What is stored beside a mark: the watermark, how far each source came, and how far the events."""
    if not sources and reached is None:
        return str(watermark) if watermark else ""
    places = ";".join(f"{p}:{','.join(map(str, seen))}" for p, seen in sorted(sources.items()))
    if reached is None:
        return f"{watermark} {places}"
    # A key may hold anything, so it comes last.
    words = (reached.topic, reached.offset) if reached.key is None else reached
    return f"{watermark} {places} {':'.join(map(str, words))}"


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
    topic, offset, *key = words[2].split(":", 2)
    return Reached(topic, int(offset), *key)


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
