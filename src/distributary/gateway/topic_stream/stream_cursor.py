"""Where a stream starts, and the id that its events carry. Pure.

An id is the next offset of every partition and, after an ``@``, the id that Kafka gave the topic: if a topic
was deleted and created again, the offsets are of another topic, and the stream starts from the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from multidict import MultiMapping

from distributary.gateway.error_codes import BAD_REQUEST, api_error
from distributary.gateway.rest_proxy.serialization import FORMATS

_ID = re.compile(r"([0-9]{1,9}:[0-9]{1,18}(?:,[0-9]{1,9}:[0-9]{1,18})*)(?:@([A-Za-z0-9_-]{1,64}))?")
PARAMETERS = ("from", "offset", "offsets", "time", "group", "partition", "format", "last_event_id")
_STARTS = ("from", "offset", "offsets", "time", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """A request for a stream; it has at most one of offset, offsets, time and group, else ``start``."""

    start: str = "latest"
    """Where partitions without an offset start: earliest or latest."""
    offset: int | None = None
    """The offset at which every partition starts."""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """The offset at which each partition starts."""
    time: int | None = None
    """The time in ms at which partitions start."""
    group: str = ""
    """The group at whose committed offsets partitions start."""
    partitions: frozenset[int] = frozenset()
    """The partitions to read; empty for all."""
    format: str = "json"
    topic_id: str = ""
    """The id of the topic that ``offsets`` are of; "" if it is not known."""


def url_safe_id(topic_id: str) -> str:
    """Write a topic's id with characters that a URL may contain."""
    return topic_id.translate(str.maketrans("+/", "-_"))


def format_cursor(positions: Mapping[int, int], topic_id: str) -> str:
    """Write the next offsets of a topic's partitions as an event id."""
    offsets = ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))
    return f"{offsets}@{url_safe_id(topic_id)}" if topic_id else offsets


def parse_cursor(text: str) -> tuple[dict[int, int], str]:
    """Parse an event id: the offsets, and the topic's id ("" if there is none); raises GatewayError."""
    found = _ID.fullmatch(text)
    if found is None:
        raise api_error(
            BAD_REQUEST, f"invalid position {text[:80]!r}", "write partition:offset,partition:offset"
        )
    pairs = [part.split(":") for part in found[1].split(",")]
    return {int(partition): int(offset) for partition, offset in pairs}, found[2] or ""


def parse_stream_request(query: MultiMapping[str], last_event_id: str = "") -> StreamRequest:
    """Parse a request: the id of the last event takes precedence over other starts."""
    starts = [name for name in _STARTS if name in query]
    if len(starts) > 1:
        raise api_error(BAD_REQUEST, f"the request has {' and '.join(starts)}", "give one start")
    start = query.get("from", "latest")
    if start not in ("earliest", "latest"):
        raise api_error(BAD_REQUEST, f"invalid start from={start[:40]!r}", "use earliest or latest")
    format = query.get("format", "json")
    if format not in FORMATS:
        raise api_error(BAD_REQUEST, f"unknown format {format[:40]!r}", f"use one of {', '.join(FORMATS)}")
    partitions = frozenset(_integer("partition", text) for text in query.getall("partition", []))
    resumed = last_event_id or query.get("last_event_id", "")
    if resumed:
        offsets, topic_id = parse_cursor(resumed)
        return StreamRequest(
            start="earliest", offsets=offsets, partitions=partitions, format=format, topic_id=topic_id
        )
    offsets, topic_id = parse_cursor(query["offsets"]) if "offsets" in query else ({}, "")
    return StreamRequest(
        start=start if not starts or starts == ["from"] else "latest",
        offset=_integer("offset", query["offset"]) if "offset" in query else None,
        offsets=offsets,
        time=_time_ms(query["time"]) if "time" in query else None,
        group=query.get("group", ""),
        partitions=partitions,
        format=format,
        topic_id=topic_id,
    )


def start_positions(
    request: StreamRequest,
    first: Mapping[int, int],
    ends: Mapping[int, int],
    found: Mapping[int, int],
    topic_id: str,
) -> tuple[dict[int, int], dict[int, tuple[int, int, str]]]:
    """Return the offsets to start at and, where records are missing, the gap: from where to where, and why.

    ``found`` is what Kafka returned for a time or a group. An offset before the first record was deleted by
    retention. An offset of another topic of the same name, known by the topic's id or because it is beyond
    the end, means nothing in this topic, which is read from its beginning.
    """
    other_topic = bool(request.topic_id) and request.topic_id != url_safe_id(topic_id)
    chosen = [number for number in ends if not request.partitions or number in request.partitions]
    positions: dict[int, int] = {}
    gaps: dict[int, tuple[int, int, str]] = {}
    for number in chosen:
        wanted = request.offsets.get(number, found.get(number, request.offset))
        if wanted is None:
            positions[number] = first[number] if request.start == "earliest" else ends[number]
        elif first[number] <= wanted <= ends[number] and not other_topic:
            positions[number] = wanted
        else:
            recreated = other_topic or wanted > ends[number]
            positions[number] = first[number]
            gaps[number] = (wanted, first[number], "recreated" if recreated else "deleted")
    return positions, gaps


def _integer(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise api_error(BAD_REQUEST, f"{name}={text[:40]!r} is not a number")
    return int(text)


def _time_ms(text: str) -> int:
    """Parse a time: ms since 1970, or ISO 8601 (UTC by default)."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        # An unescaped plus sign in a URL is decoded as a space.
        time = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        raise api_error(
            BAD_REQUEST, f"time={text[:40]!r} is not a time", "write 2026-01-31T08:00:00Z, or ms since 1970"
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
