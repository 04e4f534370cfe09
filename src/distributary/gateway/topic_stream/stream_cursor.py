"""Where a stream begins, and the id that its events carry. Pure.

An id is the next offset of every partition and, behind an ``@``, the id that Kafka gave the topic: by that a
topic which was made anew is told from the one that the offsets are of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from multidict import MultiMapping

from distributary.gateway.error_codes import BAD_REQUEST, api_error
from distributary.gateway.rest_proxy.media_types import FORMATS

_ID = re.compile(r"([0-9]{1,9}:[0-9]{1,18}(?:,[0-9]{1,9}:[0-9]{1,18})*)(?:@([A-Za-z0-9_-]{1,64}))?")
PARAMETERS = ("from", "offset", "offsets", "time", "group", "partition", "format", "last_event_id")
STARTS = ("from", "offset", "offsets", "time", "group")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request for a stream says; one of the starts, or ``word`` (earliest, latest).

    ``topic`` is the id of the topic that the offsets are of, "" where that is not said.
    """

    word: str = "latest"
    offset: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    time: int | None = None
    group: str = ""
    partitions: frozenset[int] = frozenset()
    format: str = "json"
    topic: str = ""


def local_id(topic_id: str) -> str:
    """Write a topic's id with characters that an address can have."""
    return topic_id.translate(str.maketrans("+/", "-_"))


def write(positions: Mapping[int, int], topic_id: str) -> str:
    """Write positions in a topic as an id."""
    offsets = ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))
    return f"{offsets}@{local_id(topic_id)}" if topic_id else offsets


def read(text: str) -> tuple[dict[int, int], str]:
    """Read an id: the offsets, and the topic's id, "" for one that does not say; raises GatewayError."""
    found = _ID.fullmatch(text)
    if found is None:
        raise api_error(
            BAD_REQUEST, f"{text[:80]!r} is no position", "write partition:offset,partition:offset"
        )
    pairs = [part.split(":") for part in found[1].split(",")]
    return {int(partition): int(offset) for partition, offset in pairs}, found[2] or ""


def asked(query: MultiMapping[str], last_event_id: str = "") -> Asked:
    """Read a request: the id of the last event stands over where the address says to begin."""
    starts = [name for name in STARTS if name in query]
    if len(starts) > 1:
        raise api_error(BAD_REQUEST, f"{' and '.join(starts)} are given", "say once where to begin")
    word = query.get("from", "latest")
    if word not in ("earliest", "latest"):
        raise api_error(BAD_REQUEST, f"from={word[:40]!r} is no start", "it is earliest or latest")
    format = query.get("format", "json")
    if format not in FORMATS:
        raise api_error(BAD_REQUEST, f"format={format[:40]!r} is not known", f"it is {', '.join(FORMATS)}")
    numbers = [_whole("partition", text) for text in query.getall("partition", [])]
    partitions = frozenset(numbers)
    resumed = last_event_id or query.get("last_event_id", "")
    if resumed:
        offsets, topic = read(resumed)
        return Asked("earliest", offsets=offsets, partitions=partitions, format=format, topic=topic)
    offsets, topic = read(query["offsets"]) if "offsets" in query else ({}, "")
    return Asked(
        word if not starts or starts == ["from"] else "latest",
        _whole("offset", query["offset"]) if "offset" in query else None,
        offsets,
        _moment(query["time"]) if "time" in query else None,
        query.get("group", ""),
        partitions,
        format,
        topic,
    )


def begin(
    asked: Asked,
    first: Mapping[int, int],
    ends: Mapping[int, int],
    found: Mapping[int, int],
    topic_id: str,
) -> tuple[dict[int, int], dict[int, tuple[int, int, str]]]:
    """Give the offsets to begin at and, where records are missing, from where to where, and why.

    ``found`` is what Kafka said of a time or a group. An offset before the first record was retention's. One
    that is of another topic under the same name, by the topic's id or since it is beyond the end, says
    nothing of this one, which is told from its beginning.
    """
    other = bool(asked.topic) and asked.topic != local_id(topic_id)
    chosen = [number for number in ends if not asked.partitions or number in asked.partitions]
    positions: dict[int, int] = {}
    gaps: dict[int, tuple[int, int, str]] = {}
    for number in chosen:
        wanted = asked.offsets.get(number, found.get(number, asked.offset))
        if wanted is None:
            positions[number] = first[number] if asked.word == "earliest" else ends[number]
        elif first[number] <= wanted <= ends[number] and not other:
            positions[number] = wanted
        else:
            recreated = other or wanted > ends[number]
            positions[number] = first[number]
            gaps[number] = (wanted, first[number], "recreated" if recreated else "deleted")
    return positions, gaps


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise api_error(BAD_REQUEST, f"{name}={text[:40]!r} is no number")
    return int(text)


def _moment(text: str) -> int:
    """Read a time: ms since the epoch, or ISO 8601 (UTC unless it says)."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        # A plus sign in an address is a space unless it is escaped.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        raise api_error(
            BAD_REQUEST, f"time={text[:40]!r} is no time", "write 2026-01-31T08:00:00Z, or ms since 1970"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
