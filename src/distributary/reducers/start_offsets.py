"""Where a build starts in its topic, and whether what it needs is still there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distributary.model.partition_state import folded_offset, read_event_progress
from distributary.model.position import Mark
from distributary.model.view import View


class StartOffsets(NamedTuple):
    """First offsets to read, how many records wait, and whether some that the rule needs are gone (R9)."""

    starts: dict[int, int]
    waiting: int
    incomplete: bool


class Truncated(Exception):
    """The topic ends before where the build stands: it is not the same topic any more (R8)."""


def start_offsets(
    view: View,
    marks: Mapping[int, Mark],
    earliest: Mapping[int, int],
    ends: Mapping[int, int],
    first: Mapping[int, int],
) -> StartOffsets:
    """Decide where each partition starts; ``first`` is where a new partition of this view would.

    Raises Truncated when a stored mark is beyond the topic's end.
    """
    starts: dict[int, int] = {}
    incomplete = False
    for partition, begin in earliest.items():
        mark = marks.get(partition)
        if mark is None:
            starts[partition] = max(first.get(partition, begin), begin)
            if view.start == "earliest" and begin > 0 and view.reduce != "latest":
                incomplete = True
            continue
        if mark.offset > ends[partition] or (mark.part and mark.offset >= ends[partition]):
            raise Truncated(
                f"partition {partition} ends at {ends[partition]}, the view stands at {mark.offset}"
            )
        if mark.offset < begin and not (mark.part and mark.offset + 1 >= begin):
            incomplete = True
        starts[partition] = max(mark.offset, begin)
    waiting = sum(max(0, ends[p] - folded_offset(marks.get(p), at)) for p, at in starts.items())
    return StartOffsets(starts, waiting, incomplete)


def event_start_offsets(
    view: View, memos: Mapping[int, str], topic: str, earliest: int, end: int, first: int
) -> StartOffsets:
    """Decide where the event feed starts for partitions that have folded none of it (under partition 0).

    Raises Truncated when a partition stands beyond the end, or in a topic with another id.
    """
    reached = [found for memo in memos.values() if (found := read_event_progress(memo)) is not None]
    for one in reached:
        if one.topic != topic or one.offset > end or (one.key is not None and one.offset >= end):
            raise Truncated(f"the event feed ends at {end}, the view stands at {one.offset}")
    lost = any(one.offset < earliest for one in reached)
    if not reached:
        lost = view.start == "earliest" and earliest > 0
    return StartOffsets({0: max(first, earliest)}, events_lag(memos, end), lost)


def events_lag(memos: Mapping[int, str], end: int) -> int:
    """How many events the slowest partition has still to fold; one without rows waits for none."""
    reached = [found.offset for memo in memos.values() if (found := read_event_progress(memo)) is not None]
    return max(0, end - min(reached, default=end))


def marks_of(offsets: Mapping[int, int]) -> dict[int, Mark]:
    """Plain offsets as marks."""
    return {partition: Mark(offset) for partition, offset in offsets.items()}
