"""Where a build starts in its topic, and whether what it needs is still there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from distributary.model.position import Mark
from distributary.model.view import View


class Places(NamedTuple):
    """First offsets to read, and whether records that the rule needs are gone (R9)."""

    starts: dict[int, int]
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
    return Places(starts, incomplete)


def folded(mark: Mark | None, start: int) -> int:
    """The offset before which a partition is folded, for people: a record in parts counts as done."""
    if mark is None:
        return start
    return mark.offset + (1 if mark.part else 0)


def lag(marks: Mapping[int, Mark], starts: Mapping[int, int], ends: Mapping[int, int]) -> int:
    """How many records wait, over all partitions."""
    return sum(max(0, end - folded(marks.get(p), starts.get(p, 0))) for p, end in ends.items())
