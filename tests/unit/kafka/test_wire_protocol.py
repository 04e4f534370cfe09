from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.kafka.wire_protocol import BadFrame, Reader, Writer, request, response, varint

texts = st.none() | st.text("aé", max_size=200)


@given(
    st.lists(st.tuples(texts, st.integers(-(1 << 31), (1 << 31) - 1), st.booleans())),
    st.floats(allow_nan=False),
)
def test_written_values_are_read_back(rows: list[tuple[str | None, int, bool]], number: float) -> None:
    def write(writer: Writer, row: tuple[str | None, int, bool]) -> None:
        writer.text(row[0]).number("i", row[1]).flag(row[2]).end()

    def read(reader: Reader) -> tuple[str | None, int, bool]:
        found = reader.text(), reader.whole("i"), bool(reader.whole("b"))
        reader.end()
        return found

    reader = Reader(Writer().each(rows, write).number("d", number).end().written())
    assert reader.each(read) == rows
    assert reader.number("d") == number
    reader.end()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    takes: list[Callable[[Reader], object]] = [
        Reader.text,
        Reader.end,
        lambda reader: reader.each(Reader.text),
        lambda reader: reader.number("q"),
    ]
    for take in takes:
        with contextlib.suppress(BadFrame):
            take(Reader(data))


def test_encoded_bytes_equal_those_of_the_protocol() -> None:
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\x00", b"\x7f", b"\x80\x01", b"\xac\x02"]
    frame = request(48, 1, 7, b"body")
    assert frame == b"\x00\x00\x00\x1b\x00\x30\x00\x01\x00\x00\x00\x07\x00\x0cdistributary\x00body"
    assert Writer().text(None).text("").text("ab").written() == b"\x00\x01\x03ab"
    tagged = b"\x00\x00\x00\x07" + b"\x01\x00\x02zz" + b"\x00\x05"
    assert response(tagged, 7).whole("h") == 5, "the tagged fields of others are skipped"
    with pytest.raises(BadFrame, match="another request"):
        response(tagged, 8)
