"""A record on its way from the JVM to Python: one binary column, because each Arrow column costs.

    partition offset time event_time key-length flag LF key value

The key's length is -1 for null. The flag is ``.``; ``!`` when the JVM could not
parse the value; ``0`` when there is no value; ``?`` for both.
"""

from __future__ import annotations

from typing import NamedTuple


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
    place, attempt, inner = packed.split(b"\n", 2)
    partition, offset = place.split(b" ")
    one = unpack(inner)
    source = Source(one.partition, int(attempt), one.offset)
    return one._replace(partition=int(partition), offset=int(offset), source=source)


def unpack(packed: bytes) -> Packed:
    """Read what ``pack_sql`` wrote."""
    end = packed.index(b"\n")
    partition, offset, time, event_time, key_size, flag = packed[:end].split(b" ")
    size = int(key_size)
    end += 1
    if size < 0:
        key, rest = None, end
    else:
        rest = end + size
        key = packed[end:rest]
    value = None if flag in b"0?" else packed[rest:]
    return Packed(int(partition), int(offset), int(time), int(event_time), key, value, flag in b"!?")


def pack_sql(key: str, value: str, event_time: str, unparsed: str) -> str:
    """Spark SQL that packs: ``key`` a string or null, ``value`` binary or null, ``event_time`` in ms.

    The flag says whether there is a value and whether it could be parsed.
    """
    head = (
        "concat_ws(' ', record_partition, record_offset, unix_millis(record_timestamp), "
        f"coalesce({event_time}, 0), coalesce(octet_length({key}), -1), "
        f"CASE WHEN {value} IS NULL THEN IF({unparsed}, '?', '0') ELSE IF({unparsed}, '!', '.') END)"
    )
    return (
        f"concat(cast({head} as binary), X'0A', coalesce(cast({key} as binary), X''), coalesce({value}, X''))"
    )


def rekey_sql(packed: str, attempt: int) -> str:
    """Spark SQL for the value of a record on the internal topic."""
    return f"concat(cast('{attempt}' as binary), X'0A', {packed})"


REKEYED_SQL = "concat(cast(concat_ws(' ', partition, offset) as binary), X'0A', value)"
"""Spark SQL that packs a record of the internal topic for the reducer."""
