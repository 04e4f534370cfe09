from __future__ import annotations

import base64
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import MultiDict
from tests.unit.gateway.error_code import error_code

from distributary.gateway.topic_stream.stream_cursor import (
    StreamRequest,
    format_cursor,
    parse_cursor,
    parse_stream_request,
    start_positions,
    url_safe_id,
)

POSITIONS = st.dictionaries(st.integers(0, 99), st.integers(0, 10**15), min_size=1)


@given(POSITIONS, st.binary(min_size=16, max_size=16))
def test_cursor_is_parsed_as_it_was_formatted(positions: dict[int, int], raw: bytes) -> None:
    topic = base64.b64encode(raw).decode().rstrip("=")
    id = format_cursor(positions, topic)
    assert quote(id, safe=":,@") == id
    assert parse_cursor(id) == (positions, url_safe_id(topic))
    assert parse_cursor(format_cursor(positions, "")) == (positions, "")


@given(st.text())
def test_any_text_is_parsed_as_cursor_or_rejected(text: str) -> None:
    assert error_code(parse_cursor, text) in (None, 400)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", StreamRequest()),
        ("from=earliest", StreamRequest(start="earliest")),
        ("offset=7", StreamRequest(offset=7)),
        ("offsets=0:1,2:3", StreamRequest(offsets={0: 1, 2: 3})),
        ("time=1700000000000", StreamRequest(time=1700000000000)),
        ("time=2023-11-14T22:13:20Z", StreamRequest(time=1700000000000)),
        ("time=2023-11-14T23:13:20 01:00", StreamRequest(time=1700000000000)),
        ("time=2023-11-14T22:13:20", StreamRequest(time=1700000000000)),
        (
            "group=g&partition=1&partition=2&format=avro",
            StreamRequest(group="g", partitions=frozenset({1, 2}), format="avro"),
        ),
        ("from=latest&last_event_id=0:5", StreamRequest(start="earliest", offsets={0: 5})),
        ("last_event_id=0:5@a-_Z", StreamRequest(start="earliest", offsets={0: 5}, topic_id="a-_Z")),
        ("offsets=0:5@a", StreamRequest(offsets={0: 5}, topic_id="a")),
    ],
)
def test_query_determines_the_start(query: str, expected: StreamRequest) -> None:
    assert parse_stream_request(MultiDict(parse_qsl(query.replace("+", "%2B")))) == expected


def test_last_event_id_takes_precedence_over_the_query() -> None:
    assert parse_stream_request(
        MultiDict({"from": "latest", "last_event_id": "0:1"}), "0:9"
    ) == StreamRequest(start="earliest", offsets={0: 9})


@settings(max_examples=50)
@given(POSITIONS, st.dictionaries(st.integers(0, 99), st.integers(0, 10**15)), st.data())
def test_skipped_offsets_are_always_a_gap(
    ends: dict[int, int], wanted: dict[int, int], data: st.DataObject
) -> None:
    first = {number: data.draw(st.integers(0, end)) for number, end in ends.items()}
    positions, gaps = start_positions(StreamRequest(start="earliest", offsets=wanted), first, ends, {}, "id")
    assert set(positions) == set(ends)
    for number, position in positions.items():
        assert first[number] <= position <= ends[number]
        if number not in wanted:
            assert position == first[number]
        elif position != wanted[number]:
            assert gaps[number][:2] == (wanted[number], position)
    assert set(gaps) <= set(wanted)


@given(POSITIONS, POSITIONS, st.data())
def test_offsets_of_another_topic_are_all_gaps(
    ends: dict[int, int], wanted: dict[int, int], data: st.DataObject
) -> None:
    first = {number: data.draw(st.integers(0, end)) for number, end in ends.items()}
    positions, gaps = start_positions(
        StreamRequest(start="earliest", offsets=wanted, topic_id="old"), first, ends, {}, "new"
    )
    assert positions == first
    assert gaps == {
        number: (wanted[number], first[number], "recreated") for number in wanted if number in ends
    }
