"""A record on its way from the JVM to Python: one binary column, because each Arrow column costs.

    partition(4) offset(8) time(8) event_time(8) crc(4) key-length(4) flag(1) key value

Numbers are big-endian. The key's length is -1 for null. The bits of the flag: 1 if there is no value, 2 if
the JVM could not parse it, 4 if the view's ``where`` dropped the record (some of those are sent all the same,
to show how far the topic is read).

The JVM computes; but a number that passes through it comes back normalised (1.50 as 1.5). So the plain fields
of a ``select`` are picked here from the original bytes, and only computed columns come from the JVM: as one
line of JSON before the original (``Projection``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from distributary.model.partition_state import Source
from distributary.reducers.row_json import Fields, read_object

_HEAD = struct.Struct(">iqqqIib")
_OFFSET = struct.Struct(">iqI")
_NO_VALUE, _UNPARSED, _FILTERED = 1, 2, 4


class Packed(NamedTuple):
    """A record as it arrived. ``key`` and ``value`` are None for null, ``crc`` is for its fingerprint."""

    partition: int
    offset: int
    time: int
    event_time: int
    key: bytes | None
    value: bytes | None
    unparsed: bool
    source: Source | None = None
    crc: int = 0
    filtered: bool = False


def unpack_rekeyed(packed: bytes) -> Packed:
    """Read what ``REKEYED_SQL`` wrote: a record's offset in the internal topic, then the record.

    Partition and offset are those of the internal topic; ``source`` is where the record came from.
    """
    partition, offset, crc = _OFFSET.unpack_from(packed)
    head, _, inner = packed[_OFFSET.size :].partition(b"\n")
    attempt, _, row = head.partition(b":")
    one = unpack(inner)
    source = Source(one.partition, int(attempt), one.offset, int(row), one.crc)
    return one._replace(partition=partition, offset=offset, source=source, crc=crc)


def unpack(packed: bytes) -> Packed:
    """Read what ``pack_sql`` wrote."""
    partition, offset, time, event_time, crc, size, flag = _HEAD.unpack_from(packed)
    at = _HEAD.size
    key = None
    if size >= 0:
        at += size
        key = packed[_HEAD.size : at]
    value = None if flag & _NO_VALUE else packed[at:]
    if flag <= _NO_VALUE:  # nearly all
        return Packed(
            partition=partition,
            offset=offset,
            time=time,
            event_time=event_time,
            key=key,
            value=value,
            unparsed=False,
            source=None,
            crc=crc,
        )
    unparsed, filtered = bool(flag & _UNPARSED), bool(flag & _FILTERED)
    return Packed(
        partition=partition,
        offset=offset,
        time=time,
        event_time=event_time,
        key=key,
        value=value,
        unparsed=unparsed,
        source=None,
        crc=crc,
        filtered=filtered,
    )


def pack_sql(key: str, value: str, event_time: str, unparsed: str) -> str:
    """Return Spark SQL that packs: ``key`` a string or null, ``value`` binary or null, ``event_time`` in ms.

    The flag tells whether there is a value and whether it could be parsed.
    """
    numbers = (
        "record_partition",
        "record_offset",
        "unix_millis(record_timestamp)",
        f"coalesce({event_time}, 0L)",
        "record_crc",
        f"coalesce(octet_length({key}), -1)",
    )
    head = ", ".join(f"cast({number} as binary)" for number in numbers)
    flag = f"IF({value} IS NULL, IF({unparsed}, X'03', X'01'), IF({unparsed}, X'02', X'00'))"
    return f"concat({head}, {flag}, coalesce(cast({key} as binary), X''), coalesce({value}, X''))"


FILTERED_SQL = (
    "concat(cast(record_partition as binary), cast(record_offset as binary), "
    "cast(unix_millis(record_timestamp) as binary), cast(0L as binary), cast(record_crc as binary), "
    "cast(-1 as binary), X'05')"
)
"""Spark SQL that packs the offset of a record that ``where`` dropped."""


def rekey_sql(packed: str, attempt: int) -> str:
    """Return Spark SQL for the value of a record in the internal topic."""
    # The lower bits of that number count the rows of one run of one task from 0.
    row = "cast(monotonically_increasing_id() & 8589934591L as string)"
    return f"concat(cast(concat('{attempt}:', {row}) as binary), X'0A', {packed})"


REKEYED_SQL = "concat(cast(partition as binary), cast(offset as binary), cast(record_crc as binary), value)"
"""Spark SQL that packs a record of the internal topic for the reducer."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A field of the output and the path it has in the record's value."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """How the value that a rule folds is assembled from what the JVM sent.

    ``picks`` None: the original unchanged. ``computed``: the first line has computed columns.
    """

    picks: tuple[Pick, ...] | None = None
    computed: bool = False

    def apply(self, value: bytes) -> Fields:
        """Return the fields to fold; raises Unreadable when the original is not a JSON object."""
        if self.picks is None:
            return read_object(value)
        out: Fields = {}
        if self.computed:
            line, _, value = value.partition(b"\n")
            out.update(read_object(line))
        if self.picks:
            whole = read_object(value)
            for pick in self.picks:
                found = _at(whole, pick.path)
                if found is not None:
                    out[pick.name] = found
        return out

    def original(self, value: bytes) -> bytes:
        """Return the record's own value."""
        return value.partition(b"\n")[2] if self.computed else value


def _at(row: Fields, path: tuple[str, ...]) -> msgspec.Raw | None:
    found = row.get(path[0])
    for name in path[1:]:
        if found is None or bytes(found)[:1] != b"{":
            return None
        found = read_object(bytes(found)).get(name)
    return found
