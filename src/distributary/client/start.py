"""Where a consumer begins with a partition, when it is not where its group was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

Offsets = Mapping[int, int] | Mapping[tuple[str, int], int]
Start = Literal["earliest", "latest"] | datetime | Offsets | None


def begin_at(handle: Consumer, places: list[TopicPartition], start: Start, limit: float) -> None:
    """Set the offsets of ``places`` to where reading begins; those that ``start`` does not name stay.

    An end is a number, so that going back to it later passes over nothing.
    """
    if start is None or not places:
        return
    if start == "earliest":
        for one in places:
            one.offset = OFFSET_BEGINNING
    elif start == "latest":
        for one in places:
            one.offset = _end(handle, one, limit)
    elif isinstance(start, datetime):
        at = round(start.timestamp() * 1000)
        asked = [TopicPartition(one.topic, one.partition, at) for one in places]
        found = {
            (one.topic, one.partition): one.offset for one in handle.offsets_for_times(asked, timeout=limit)
        }
        for one in places:
            at = found[one.topic, one.partition]
            one.offset = at if at >= 0 else _end(handle, one, limit)  # no record is as late
    else:
        for one in places:
            given = start.get((one.topic, one.partition), start.get(one.partition))  # type: ignore[call-overload]
            if given is not None:
                one.offset = given


def _end(handle: Consumer, one: TopicPartition, limit: float) -> int:
    return int(handle.get_watermark_offsets(one, timeout=limit)[1])
