"""How a record of a topic is recognised again: a log may lose its tail and grow again past it."""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

_TIME = struct.Struct(">q")


class Fingerprint(NamedTuple):
    """A record's offset, and a checksum of its timestamp and value."""

    offset: int
    crc: int

    def __str__(self) -> str:
        return f"{self.offset}:{self.crc}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Read what ``str`` wrote."""
        offset, _, crc = text.partition(":")
        return cls(int(offset), int(crc))


def checksum(time: int, value: bytes | None) -> int:
    """The checksum of a record with this timestamp (ms) and value."""
    return crc32(value or b"", crc32(_TIME.pack(time)))


CHECKSUM_SQL = (
    "cast(crc32(concat(cast(unix_millis(timestamp) as binary), coalesce(value, X''))) as int) AS record_crc"
)
"""The same in Spark SQL, from the columns of its Kafka source."""
