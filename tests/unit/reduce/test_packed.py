"""What the JVM packs is what Python unpacks (the JVM's side is tested on Spark)."""

from __future__ import annotations

import pytest

from distributary.reduce.packed import Packed, unpack


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (b"1 42 1000 2000 2 .\nab{}", Packed(1, 42, 1000, 2000, b"ab", b"{}", False)),
        (b"1 42 1000 2000 0 .\n{\n}", Packed(1, 42, 1000, 2000, b"", b"{\n}", False)),
        (b"1 42 1000 2000 -1 .\n{}", Packed(1, 42, 1000, 2000, None, b"{}", False)),
        (b"1 42 1000 2000 1 0\na", Packed(1, 42, 1000, 2000, b"a", None, False)),
        (b"1 42 1000 2000 1 !\na{x", Packed(1, 42, 1000, 2000, b"a", b"{x", True)),
        (b"1 42 1000 2000 1 ?\na", Packed(1, 42, 1000, 2000, b"a", None, True)),
    ],
)
def test_unpack(packed: bytes, expected: Packed) -> None:
    assert unpack(packed) == expected
