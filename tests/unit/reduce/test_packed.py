"""What the JVM packs is what Python unpacks (the JVM's side is tested on Spark)."""

from __future__ import annotations

import struct

import pytest

from distributary.reduce.packed import Packed, Source, unpack, unpack_rekeyed


def head(key_size: int, flag: int) -> bytes:
    return struct.pack(">iqqqib", 1, 42, 1000, 2000, key_size, flag)


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (head(2, 0) + b"ab{}", Packed(1, 42, 1000, 2000, b"ab", b"{}", False)),
        (head(0, 0) + b"{\n}", Packed(1, 42, 1000, 2000, b"", b"{\n}", False)),
        (head(-1, 0) + b"{}", Packed(1, 42, 1000, 2000, None, b"{}", False)),
        (head(1, 1) + b"a", Packed(1, 42, 1000, 2000, b"a", None, False)),
        (head(1, 2) + b"a{x", Packed(1, 42, 1000, 2000, b"a", b"{x", True)),
        (head(1, 3) + b"a", Packed(1, 42, 1000, 2000, b"a", None, True)),
    ],
)
def test_unpack(packed: bytes, expected: Packed) -> None:
    assert unpack(packed) == expected


def test_a_rekeyed_record_knows_both_places() -> None:
    packed = struct.pack(">iq", 7, 10) + b"3\n" + head(1, 0) + b"a{}"
    assert unpack_rekeyed(packed) == Packed(7, 10, 1000, 2000, b"a", b"{}", False, Source(1, 3, 42))
