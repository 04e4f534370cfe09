"""Where a consumer begins with a partition, when it is not where its group was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

Offsets = Mapping[int, int] | Mapping[tuple[str, int], int]
Start = Literal["earliest", "latest"] | datetime | Offsets | None


LATEST = ("latest", "largest", "end")
"""The values of ``auto.offset.reset`` by which a group begins at the end."""


def begin_at(
    handle: Consumer, places: list[TopicPartition], start: Start, limit: float
) -> list[TopicPartition]:
    """Set the offsets of ``places`` to where reading begins; those that ``start`` does not name stay.

    Returns where those begin of which the group has committed nothing so far, for it to be told.
    """
    if start is None or not places:
        return []
    known = {(one.topic, one.partition) for one in handle.committed(places, timeout=limit) if one.offset >= 0}
    fresh = [one for one in places if (one.topic, one.partition) not in known]
    if start == "earliest":
        for one in places:
            one.offset = OFFSET_BEGINNING
    elif start == "latest":
        for one in fresh:  # where the group has been, what it has not read yet would be passed over
            one.offset = _ends(handle, one, limit)[1]
    elif isinstance(start, datetime):
        at = round(start.timestamp() * 1000)
        asked = [TopicPartition(one.topic, one.partition, at) for one in places]
        found = {
            (one.topic, one.partition): one.offset for one in handle.offsets_for_times(asked, timeout=limit)
        }
        for one in places:
            at = found[one.topic, one.partition]
            one.offset = at if at >= 0 else _ends(handle, one, limit)[1]  # no record is as late
    else:
        for one in places:
            given = start.get((one.topic, one.partition), start.get(one.partition))  # type: ignore[call-overload]
            if given is not None:
                one.offset = given
    begun = [TopicPartition(one.topic, one.partition, one.offset) for one in fresh]
    for one in begun:
        if one.offset == OFFSET_BEGINNING:
            one.offset = _ends(handle, one, limit)[0]
    return [one for one in begun if one.offset >= 0]


def _ends(handle: Consumer, one: TopicPartition, limit: float) -> tuple[int, int]:
    low, high = handle.get_watermark_offsets(one, timeout=limit)
    return int(low), int(high)
