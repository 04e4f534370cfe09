"""What the JVM packs is what Python unpacks (the JVM's side is tested on Spark)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from distributary.model.partition_state import Source
from distributary.reducers.record_codec import Packed, unpack, unpack_rekeyed


def head(key_size: int, flag: int) -> bytes:
    return struct.pack(">iqqqIib", 1, 42, 1000, 2000, 4_000_000_000, key_size, flag)


def record(key: bytes | None, value: bytes | None, unparsed: bool, **more: Any) -> Packed:
    return Packed(
        partition=1,
        offset=42,
        time=1000,
        event_time=2000,
        key=key,
        value=value,
        unparsed=unparsed,
        crc=4_000_000_000,
        **more,
    )


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (head(2, 0) + b"ab{}", record(b"ab", b"{}", False)),
        (head(0, 0) + b"{\n}", record(b"", b"{\n}", False)),
        (head(-1, 0) + b"{}", record(None, b"{}", False)),
        (head(1, 1) + b"a", record(b"a", None, False)),
        (head(1, 2) + b"a{x", record(b"a", b"{x", True)),
        (head(1, 3) + b"a", record(b"a", None, True)),
        (head(-1, 5), record(None, None, False, filtered=True)),
    ],
)
def test_unpack_reads_every_flag_and_key(packed: bytes, expected: Packed) -> None:
    assert unpack(packed) == expected


def test_unpack_rekeyed_reads_internal_and_source_offsets() -> None:
    packed = struct.pack(">iqI", 7, 10, 99) + b"3:8\n" + head(1, 0) + b"a{}"
    source = Source(1, 3, 42, 8, 4_000_000_000)
    assert unpack_rekeyed(packed) == Packed(
        partition=7,
        offset=10,
        time=1000,
        event_time=2000,
        key=b"a",
        value=b"{}",
        unparsed=False,
        source=source,
        crc=99,
    )
