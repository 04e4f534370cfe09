"""Where a stream begins, and the id that its events carry: the next offset of every partition. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from multidict import MultiMapping

from distributary.gateway.proxy.media import FORMATS
from distributary.gateway.refuse import BAD_REQUEST, refuse

_ID = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*")
_PARAMETERS = ("from", "offset", "offsets", "time", "group", "partition", "format", "last_event_id")
STARTS = ("from", "offset", "offsets", "time", "group")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request for a stream says; one of the starts, or ``word`` (earliest, latest)."""

    word: str = "latest"
    offset: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    time: int | None = None
    group: str = ""
    partitions: frozenset[int] = frozenset()
    format: str = "json"


def write(positions: Mapping[int, int]) -> str:
    """Write positions as an id."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def read(text: str) -> dict[int, int]:
    """Read an id; raises GatewayError."""
    if not _ID.fullmatch(text):
        raise refuse(BAD_REQUEST, f"{text[:80]!r} is no position", "write partition:offset,partition:offset")
    pairs = [part.split(":") for part in text.split(",")]
    return {int(partition): int(offset) for partition, offset in pairs}


def asked(query: MultiMapping[str], last_event_id: str = "") -> Asked:
    """Read a request: the id of the last event stands over where the address says to begin."""
    for name in query:
        if name not in _PARAMETERS:
            raise refuse(
                BAD_REQUEST, f"unknown parameter {name[:80]!r}", f"there are {', '.join(_PARAMETERS)}"
            )
    starts = [name for name in STARTS if name in query]
    if len(starts) > 1:
        raise refuse(BAD_REQUEST, f"{' and '.join(starts)} are given", "say once where to begin")
    word = query.get("from", "latest")
    if word not in ("earliest", "latest"):
        raise refuse(BAD_REQUEST, f"from={word[:40]!r} is no start", "it is earliest or latest")
    format = query.get("format", "json")
    if format not in FORMATS:
        raise refuse(BAD_REQUEST, f"format={format[:40]!r} is not known", f"it is {', '.join(FORMATS)}")
    numbers = [_whole("partition", text) for text in query.getall("partition", [])]
    partitions = frozenset(numbers)
    resumed = last_event_id or query.get("last_event_id", "")
    if resumed:
        return Asked("earliest", offsets=read(resumed), partitions=partitions, format=format)
    return Asked(
        word if not starts or starts == ["from"] else "latest",
        _whole("offset", query["offset"]) if "offset" in query else None,
        read(query["offsets"]) if "offsets" in query else {},
        _moment(query["time"]) if "time" in query else None,
        query.get("group", ""),
        partitions,
        format,
    )


def begin(
    asked: Asked, first: Mapping[int, int], ends: Mapping[int, int], found: Mapping[int, int]
) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """Give the offsets to begin at, and for partitions where records are missing: from where to where.

    ``found`` is what Kafka said of a time or a group. An offset before the first record was retention's; one
    beyond the end is of another topic under the same name, and this one is told from its beginning.
    """
    chosen = [number for number in ends if not asked.partitions or number in asked.partitions]
    positions: dict[int, int] = {}
    gaps: dict[int, tuple[int, int]] = {}
    for number in chosen:
        wanted = asked.offsets.get(number, found.get(number, asked.offset))
        if wanted is None:
            positions[number] = first[number] if asked.word == "earliest" else ends[number]
        elif first[number] <= wanted <= ends[number]:
            positions[number] = wanted
        else:
            positions[number] = first[number]
            gaps[number] = (wanted, first[number])
    return positions, gaps


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise refuse(BAD_REQUEST, f"{name}={text[:40]!r} is no number")
    return int(text)


def _moment(text: str) -> int:
    """Read a time: ms since the epoch, or ISO 8601 (UTC unless it says)."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        # A plus sign in an address is a space unless it is escaped.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        raise refuse(
            BAD_REQUEST, f"time={text[:40]!r} is no time", "write 2026-01-31T08:00:00Z, or ms since 1970"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
