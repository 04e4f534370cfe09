from __future__ import annotations

import base64
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import MultiDict
from tests.unit.gateway.error_code import error_code

from distributary.gateway.topic_stream.stream_cursor import Asked, asked, begin, local_id, read, write

POSITIONS = st.dictionaries(st.integers(0, 99), st.integers(0, 10**15), min_size=1)


@given(POSITIONS, st.binary(min_size=16, max_size=16))
def test_an_id_is_read_as_it_was_written(positions: dict[int, int], raw: bytes) -> None:
    topic = base64.b64encode(raw).decode().rstrip("=")
    id = write(positions, topic)
    assert quote(id, safe=":,@") == id
    assert read(id) == (positions, local_id(topic))
    assert read(write(positions, "")) == (positions, "")


@given(st.text())
def test_any_id_is_read_or_refused(text: str) -> None:
    assert error_code(read, text) in (None, 400)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Asked()),
        ("from=earliest", Asked("earliest")),
        ("offset=7", Asked(offset=7)),
        ("offsets=0:1,2:3", Asked(offsets={0: 1, 2: 3})),
        ("time=1700000000000", Asked(time=1700000000000)),
        ("time=2023-11-14T22:13:20Z", Asked(time=1700000000000)),
        ("time=2023-11-14T23:13:20 01:00", Asked(time=1700000000000)),
        ("time=2023-11-14T22:13:20", Asked(time=1700000000000)),
        (
            "group=g&partition=1&partition=2&format=avro",
            Asked(group="g", partitions=frozenset({1, 2}), format="avro"),
        ),
        ("from=latest&last_event_id=0:5", Asked("earliest", offsets={0: 5})),
        ("last_event_id=0:5@a-_Z", Asked("earliest", offsets={0: 5}, topic="a-_Z")),
        ("offsets=0:5@a", Asked(offsets={0: 5}, topic="a")),
    ],
)
def test_what_addresses_say(query: str, expected: Asked) -> None:
    assert asked(MultiDict(parse_qsl(query.replace("+", "%2B")))) == expected


def test_the_last_event_stands_over_the_address() -> None:
    assert asked(MultiDict({"from": "latest", "last_event_id": "0:1"}), "0:9") == Asked(
        "earliest", offsets={0: 9}
    )


@settings(max_examples=50)
@given(POSITIONS, st.dictionaries(st.integers(0, 99), st.integers(0, 10**15)), st.data())
def test_what_is_passed_over_is_always_a_gap(
    ends: dict[int, int], wanted: dict[int, int], data: st.DataObject
) -> None:
    first = {number: data.draw(st.integers(0, end)) for number, end in ends.items()}
    positions, gaps = begin(Asked("earliest", offsets=wanted), first, ends, {}, "id")
    assert set(positions) == set(ends)
    for number, position in positions.items():
        assert first[number] <= position <= ends[number]
        if number not in wanted:
            assert position == first[number]
        elif position != wanted[number]:
            assert gaps[number][:2] == (wanted[number], position)
    assert set(gaps) <= set(wanted)


@given(POSITIONS, POSITIONS, st.data())
def test_positions_of_another_topic_are_all_gaps(
    ends: dict[int, int], wanted: dict[int, int], data: st.DataObject
) -> None:
    first = {number: data.draw(st.integers(0, end)) for number, end in ends.items()}
    positions, gaps = begin(Asked("earliest", offsets=wanted, topic="old"), first, ends, {}, "new")
    assert positions == first
    assert gaps == {
        number: (wanted[number], first[number], "recreated") for number in wanted if number in ends
    }
