"""The Protobuf encoding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.codec.protobuf_encoding import (
    Malformed,
    Schema,
    block,
    delimited,
    messages,
    number,
    read,
    text,
    varint,
)

POINT: Schema = {1: ("x", (0, 1 << 32)), 2: ("name", str)}
SHAPE: Schema = {
    1: ("id", (0, (1 << 32) - 1)),
    2: ("signed", (-(1 << 31), (1 << 31) - 1)),
    3: ("flag", bool),
    4: ("data", bytes),
    5: ("name", str),
    6: ("point", POINT),
    20: ("big", (0, (1 << 64) - 1)),
}


@pytest.mark.parametrize(
    ("value", "bytes_"), [(0, b"\x00"), (1, b"\x01"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")]
)
def test_varints_are_encoded_as_the_library_does(value: int, bytes_: bytes) -> None:
    assert varint(value) == bytes_


@given(
    id=st.integers(0, (1 << 32) - 1),
    flag=st.booleans(),
    data=st.binary(),
    name=st.text(),
    x=st.integers(0, 1 << 32),
    big=st.integers(0, (1 << 64) - 1),
)
def test_fields_survive_a_round_trip(id: int, flag: bool, data: bytes, name: str, x: int, big: int) -> None:
    message = (
        number(1, id)
        + number(3, flag)
        + block(4, data)
        + text(5, name)
        + block(6, number(1, x) + text(2, name))
        + number(20, big)
    )
    found: dict[str, Any] = {"id": 0, "flag": False, "name": "", "big": 0}
    found |= read(SHAPE, message)
    point: dict[str, Any] = {"x": 0, "name": ""}
    point |= found.pop("point")
    assert found == {"id": id, "flag": flag, "data": data, "name": name, "big": big}
    assert point == {"x": x, "name": name}


@given(st.lists(st.binary(max_size=300)))
def test_delimited_messages_are_split(parts: list[bytes]) -> None:
    assert list(messages(b"".join(map(delimited, parts)))) == parts


def test_negative_numbers_are_ten_bytes() -> None:
    minus_one = b"\x10" + b"\xff" * 9 + b"\x01"
    assert read(SHAPE, minus_one) == {"signed": -1}
    with pytest.raises(Malformed):
        read(SHAPE, b"\x08" + minus_one[1:])  # id has no sign


def test_last_value_wins_and_messages_merge() -> None:
    assert read(SHAPE, number(1, 5) + number(1, 6)) == {"id": 6}
    merged = read(SHAPE, block(6, number(1, 5)) + block(6, text(2, "a")))
    assert merged == {"point": {"x": 5, "name": "a"}}


def test_unknown_fields_are_ignored() -> None:
    strange = number(99, 7) + block(98, b"xyz") + b"\xb9\x06" + b"8" * 8 + b"\xbd\x06" + b"4" * 4
    assert read(SHAPE, strange + number(1, 5)) == {"id": 5}
    assert read(SHAPE, block(1, b"a") + number(5, 1)) == {}  # known, but of another kind


@pytest.mark.parametrize(
    "message",
    [
        b"\x08",  # no value
        b"\x22\x05abc",  # cut off
        b"\x80",  # half a tag
        b"\x00\x01",  # field 0
        b"\x0b\x0c",  # a group
        b"\x08" + b"\xff" * 10 + b"\x01",  # eleven bytes
        b"\x08" + b"\xff" * 9 + b"\x02",  # 65 bits
        b"\x2a\x01\xff",  # not UTF-8
        b"\x08\x80\x80\x80\x80\x10",  # 33 bits
        b"\xb9\x06" + b"8" * 7,
        b"\x32\x01\x08",  # cut off inside
    ],
)
def test_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        read(SHAPE, message)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    try:
        for message in messages(data):
            read(SHAPE, message)
    except Malformed:
        pass
