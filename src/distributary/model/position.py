"""How far a reader or a reducer is: positions, marks, and the fingerprints of the records at them."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple, TypeAlias
from zlib import crc32

from distributary.errors import BadQuery
from distributary.model.filter.times import parse_time


class Position(NamedTuple):
    """A point in the history of a view: ``seq`` counts changes, ``epoch`` identifies the count.

    Positions are comparable only within one epoch; a new epoch means that the previous count can no longer be
    trusted.
    """

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse ``epoch:seq``, or raise ValueError."""
        epoch, colon, seq = text.rpartition(":")
        if not colon or not epoch or not (seq.isascii() and seq.isdigit()):
            raise ValueError(f"expected a position such as EPOCH:NUMBER, not {text!r}")
        return cls(epoch, int(seq))


class Mark(NamedTuple):
    """How far a reducer has folded one partition.

    Every record before ``offset`` is folded, and so are the first ``part`` rows of the record at ``offset``
    (a select may explode it into several).
    """

    offset: int
    part: int = 0

    def __str__(self) -> str:
        return f"{self.offset}:{self.part}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Parse what ``str`` returned."""
        offset, _, part = text.partition(":")
        return cls(int(offset), int(part or 0))


Start: TypeAlias = Position | int
"""Where a subscriber starts: a position, or a time in ms since 1970."""

_HINT = "expected a position (EPOCH:NUMBER), a time (ISO 8601, UTC by default) or milliseconds"
_LATEST = 1 << 53


def read_start(value: str | int) -> Start:
    """Parse ``EPOCH:NUMBER``, an ISO 8601 time, or milliseconds since 1970. Raises BadQuery."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit() and len(value) < 17):
        time_ms = parse_time(value)
        if time_ms is not None:
            return math.floor(time_ms)
        try:
            return Position.parse(value)
        except ValueError:
            raise BadQuery(f"from {value[:80]!r} is neither a position nor a time", hint=_HINT) from None
    if isinstance(value, bool) or not 0 <= int(value) < _LATEST:
        raise BadQuery(f"from {str(value)[:80]} is not a time", hint=_HINT)
    return int(value)


_TIME = struct.Struct(">q")


class Fingerprint(NamedTuple):
    """The offset of a record, and a checksum of its timestamp and value.

    It identifies the record after a log has lost its tail and grown again past it.
    """

    offset: int
    crc: int

    def __str__(self) -> str:
        return f"{self.offset}:{self.crc}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Parse what ``str`` returned."""
        offset, _, crc = text.partition(":")
        return cls(int(offset), int(crc))


def checksum(time: int, value: bytes | None) -> int:
    """Return the checksum of a record with this timestamp (ms) and value."""
    return crc32(value or b"", crc32(_TIME.pack(time)))


CHECKSUM_SQL = (
    "cast(crc32(concat(cast(unix_millis(timestamp) as binary), coalesce(value, X''))) as int) AS record_crc"
)
"""The same checksum in Spark SQL, from the columns of the Kafka source."""
