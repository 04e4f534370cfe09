"""Where a build starts in its topic, and whether what it needs is still there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distributary.model.position import Mark
from distributary.model.view import View
from distributary.reduce.memo import read_memo


class Places(NamedTuple):
    """First offsets to read, how many records wait, and whether some that the rule needs are gone (R9)."""

    starts: dict[int, int]
    waiting: int
    incomplete: bool


class Truncated(Exception):
    """The topic ends before where the build stands: it is not the same topic any more (R8)."""


def places(
    view: View,
    marks: Mapping[int, Mark],
    earliest: Mapping[int, int],
    ends: Mapping[int, int],
    first: Mapping[int, int],
) -> Places:
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
    waiting = sum(max(0, ends[p] - folded(marks.get(p), at)) for p, at in starts.items())
    return Places(starts, waiting, incomplete)


def marks_of(offsets: Mapping[int, int]) -> dict[int, Mark]:
    """Plain offsets as marks."""
    return {partition: Mark(offset) for partition, offset in offsets.items()}


def source_places(
    memos: Mapping[int, str], hops: Mapping[int, int], starts: Mapping[int, int]
) -> dict[int, int]:
    """How far each source partition of a re-keyed view is folded, by what its reducers remember."""
    reached = {p: max(at, hops.get(p, 0)) for p, at in starts.items()}
    for memo in memos.values():
        for partition, seen in read_memo(memo)[1].items():
            reached[partition] = max(reached.get(partition, 0), seen.offset + 1)
    return reached


def folded(mark: Mark | None, start: int) -> int:
    """The offset before which a partition is folded, for people: a record in parts counts as done."""
    if mark is None:
        return start
    return mark.offset + (1 if mark.part else 0)
