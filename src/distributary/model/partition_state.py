"""What a reducer stores beside a mark: its watermark, and how far its sources and events are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distributary.model.position import Fingerprint, Mark

FILTERED_MARK_EVERY = 32
"""In Real-Time Mode one of so many records that a view filters out moves its mark all the same."""


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
        """A key by which further progress is greater."""
        return self.offset, self.key is not None, self.key or ""

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of the last event of which anything is folded."""
        if self.crc is None:
            return None
        return Fingerprint(self.offset if self.key is not None else self.offset - 1, self.crc)


def write_state(
    watermark: int, sources: dict[int, SourceProgress], reached: EventProgress | None = None
) -> str:
    """Return what is stored beside a mark."""
    if not sources and reached is None:
        return str(watermark) if watermark else ""
    progress = ";".join(f"{p}:{','.join(map(str, one))}" for p, one in sorted(sources.items()))
    if reached is None:
        return f"{watermark} {progress}"
    # A key may hold anything, so it comes last.
    crc = "" if reached.crc is None else str(reached.crc)
    words = [reached.topic, str(reached.offset), crc, *([reached.key] if reached.key is not None else [])]
    return f"{watermark} {progress} {':'.join(words)}"


def read_state(state: str) -> tuple[int, dict[int, SourceProgress]]:
    """Read what ``write_state`` wrote."""
    watermark, progress, _ = (*state.split(" ", 2), "", "")[:3]
    sources: dict[int, SourceProgress] = {}
    for one in filter(None, progress.split(";")):
        partition, _, numbers = one.partition(":")
        sources[int(partition)] = SourceProgress(*map(int, numbers.split(",")))
    return int(watermark or 0), sources


def read_event_progress(state: str) -> EventProgress | None:
    """Read how far the events are folded; None when nothing was written since there were any."""
    words = state.split(" ", 2)
    if len(words) < 3:
        return None
    topic, offset, crc, *key = words[2].split(":", 3)
    return EventProgress(topic, int(offset), key[0] if key else None, int(crc) if crc else None)


def is_repeat(sources: dict[int, SourceProgress], source: Source) -> bool:
    """Whether the re-keying query has sent this before; updates ``sources`` if not (R7).

    The query restarts from the end of a batch, so a later attempt repeats some rows, which are known by the
    offset and part of their record. Within an attempt Spark may run a task again, which repeats rows under
    their numbers. An earlier attempt that still writes is a zombie.
    """
    _, attempt, offset, row, crc = source
    progress = sources.get(source.partition)
    if progress is None:
        sources[source.partition] = SourceProgress(
            attempt=attempt, offset=offset, part=0, at_offset=offset, at_part=0, at_row=row, crc=crc
        )
        return False
    if attempt < progress.attempt:
        return True
    part = 0
    if attempt == progress.attempt:
        if (offset, row) <= (progress.at_offset, progress.at_row):
            return True
        part = progress.at_part + 1 if offset == progress.at_offset else 0
    if (offset, part) > (progress.offset, progress.part):
        sources[source.partition] = SourceProgress(
            attempt=attempt, offset=offset, part=part, at_offset=offset, at_part=part, at_row=row, crc=crc
        )
        return False
    sources[source.partition] = SourceProgress(
        attempt=attempt,
        offset=progress.offset,
        part=progress.part,
        at_offset=offset,
        at_part=part,
        at_row=row,
        crc=progress.crc,
    )
    return True


def source_fingerprints(states: Iterable[str]) -> dict[int, Fingerprint]:
    """Return the fingerprint of the last folded record of each source partition of a re-keyed view."""
    found: dict[int, Fingerprint] = {}
    for state in states:
        for partition, progress in read_state(state)[1].items():
            one = Fingerprint(progress.offset, progress.crc)
            found[partition] = max(one, found.get(partition, one))
    return found


def source_offsets(
    states: Mapping[int, str], rekey_offsets: Mapping[int, int], starts: Mapping[int, int]
) -> dict[int, int]:
    """Return how far each source partition of a re-keyed view is folded, from its reducers' states."""
    reached = {p: max(at, rekey_offsets.get(p, 0)) for p, at in starts.items()}
    for state in states.values():
        for partition, progress in read_state(state)[1].items():
            reached[partition] = max(reached.get(partition, 0), progress.offset + 1)
    return reached


def folded_offset(mark: Mark | None, start: int) -> int:
    """Return the offset before which a partition is folded, for people: a record in parts counts as done."""
    if mark is None:
        return start
    return mark.offset + (1 if mark.part else 0)
