"""What a function gives back, as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from distributary.client.record import Record
from distributary.workers.results import Out, outs

RECORD = Record("t", 0, 7, b"k", b"v")


def several() -> Iterator[Any]:
    yield "a"
    yield None
    yield Out(b"b", "other", topic="u")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, []),
        (b"", [Out(b"", b"k")]),
        ("text", [Out("text", b"k")]),
        ({"n": 1, "ü": [True, None]}, [Out('{"n":1,"ü":[true,null]}', b"k")]),
        ([1, 2], [Out("[1,2]", b"k")]),
        (0, [Out("0", b"k")]),
        (Out(None, b"x"), [Out(None, b"x")]),
    ],
)
def test_each_kind(result: Any, expected: list[Out]) -> None:
    assert list(outs(result, RECORD)) == expected


def test_a_generator_is_several() -> None:
    assert list(outs(several(), RECORD)) == [Out("a", b"k"), Out(b"b", "other", topic="u")]


def test_what_is_no_record() -> None:
    with pytest.raises(TypeError, match="it gave back a object, which is no record"):
        list(outs(object(), RECORD))
