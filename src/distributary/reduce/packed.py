"""A record on its way from the JVM to Python: one binary column, because each Arrow column costs.

    partition(4) offset(8) time(8) event_time(8) key-length(4) flag(1) key value

Numbers are big-endian. The key's length is -1 for null. The flag's bits: 1 when
there is no value, 2 when the JVM could not parse it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEAD = struct.Struct(">iqqqib")
_PLACE = struct.Struct(">iq")
_NO_VALUE, _UNPARSED = 1, 2


class Source(NamedTuple):
    """Where a re-keyed record came from; ``attempt`` grows with every start of the re-keying query."""

    partition: int
    attempt: int
    offset: int


class Packed(NamedTuple):
    """A record as it arrived. ``key`` and ``value`` are None for null."""

    partition: int
    offset: int
    time: int
    event_time: int
    key: bytes | None
    value: bytes | None
    unparsed: bool
    source: Source | None = None


def unpack_rekeyed(packed: bytes) -> Packed:
    """Read what ``REKEYED_SQL`` wrote: a record's place on the internal topic, then the record.

    Partition and offset are those of the internal topic; where the record came
    from is its ``source``.
    """
    partition, offset = _PLACE.unpack_from(packed)
    attempt, _, inner = packed[_PLACE.size :].partition(b"\n")
    one = unpack(inner)
    source = Source(one.partition, int(attempt), one.offset)
    return one._replace(partition=partition, offset=offset, source=source)


def unpack(packed: bytes) -> Packed:
    """Read what ``pack_sql`` wrote."""
    partition, offset, time, event_time, size, flag = _HEAD.unpack_from(packed)
    at = _HEAD.size
    key = None
    if size >= 0:
        at += size
        key = packed[_HEAD.size : at]
    value = None if flag & _NO_VALUE else packed[at:]
    return Packed(partition, offset, time, event_time, key, value, flag > _NO_VALUE)


def pack_sql(key: str, value: str, event_time: str, unparsed: str) -> str:
    """Spark SQL that packs: ``key`` a string or null, ``value`` binary or null, ``event_time`` in ms.

    The flag says whether there is a value and whether it could be parsed.
    """
    numbers = (
        "record_partition",
        "record_offset",
        "unix_millis(record_timestamp)",
        f"coalesce({event_time}, 0L)",
        f"coalesce(octet_length({key}), -1)",
    )
    head = ", ".join(f"cast({number} as binary)" for number in numbers)
    flag = f"IF({value} IS NULL, IF({unparsed}, X'03', X'01'), IF({unparsed}, X'02', X'00'))"
    return f"concat({head}, {flag}, coalesce(cast({key} as binary), X''), coalesce({value}, X''))"


def rekey_sql(packed: str, attempt: int) -> str:
    """Spark SQL for the value of a record on the internal topic."""
    return f"concat(cast('{attempt}' as binary), X'0A', {packed})"


REKEYED_SQL = "concat(cast(partition as binary), cast(offset as binary), value)"
"""Spark SQL that packs a record of the internal topic for the reducer."""
