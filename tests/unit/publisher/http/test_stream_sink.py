"""How HTTP streams are written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.http.stream_sink import (
    JSON_LINES,
    PAGE_BYTES,
    SSE,
    StreamEncoder,
    StreamFormat,
    StreamSink,
    portions,
    stream_format,
)
from distributary.publisher.hub.snapshot import Snapshot
from distributary.publisher.hub.state_budget import StateBudget
from distributary.publisher.hub.subscription import Recovered, Waiting


@pytest.mark.parametrize(
    ("accept", "format"),
    [
        ("", SSE),
        ("*/*", SSE),
        ("text/event-stream", SSE),
        ("application/x-ndjson", JSON_LINES),
        ("Application/NDJSON; q=0.9", JSON_LINES),
        ("application/x-ndjson, text/event-stream", SSE),
        ("application/json", SSE),
    ],
)
def test_format_is_chosen_by_the_accept_header(accept: str, format: StreamFormat) -> None:
    assert stream_format(accept) is format


@given(
    st.text(st.characters(exclude_characters="\r\n:", codec="utf-8")),
    st.lists(st.tuples(st.integers(1, 1 << 60), st.sampled_from([b"{}", b'{"a":\r\n1}', b'"x"']))),
)
def test_each_line_is_a_json_object(epoch: str, pubs: list[tuple[int, bytes]]) -> None:
    lines = StreamEncoder(JSON_LINES).encode(epoch, pubs).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [
        {"event": "change", "id": f"{epoch}:{n}", "data": json.loads(data)} for n, data in pubs
    ]


def test_event_without_a_position_has_no_id() -> None:
    assert JSON_LINES.event("end", b'{"code":1}') == b'{"event":"end","data":{"code":1}}\n'
    assert (
        StreamEncoder(JSON_LINES).encode_notice(b'{"op":"fresh"}')
        == b'{"event":"stale","data":{"op":"fresh"}}\n'
    )
    assert StreamEncoder(SSE).encode_notice(b'{"op":"fresh"}') == b'event: stale\ndata: {"op":"fresh"}\n\n'
    assert json.loads(JSON_LINES.heartbeat) == {"event": "heartbeat"}


def test_events_are_parsed_by_a_reader() -> None:
    assert SSE.changes("e", [(1, b"{}"), (2, b'{"a":\n1}')]) == (
        b'id: e:1\nevent: change\ndata: {}\n\nid: e:2\nevent: change\ndata: {"a": 1}\n\n'
    )
    assert SSE.event("ready", b"{}", "e:1") == b"id: e:1\nevent: ready\ndata: {}\n\n"


async def test_what_is_being_sent_counts_as_waiting_until_it_is_out() -> None:
    slow: list[bool] = []
    sink = StreamSink(100, lambda: slow.append(True))
    sink.write(b"x" * 60)
    assert await sink.take(1) == (b"x" * 60, False)
    sink.write(b"y" * 40)
    assert not sink.over, "the reader has taken the rest"
    sink.write(b"z")
    assert (sink.over, slow) == (True, [True])


async def test_reader_that_has_taken_everything_has_all_the_room() -> None:
    sink = StreamSink(100)
    for _ in range(3):
        sink.write(b"x" * 90)
        assert len((await sink.take(1))[0]) == 90
        assert await sink.take(0.001) == (b"", False)
    assert not sink.over


async def test_state_is_sent_in_parts_and_its_turn_ends_with_the_last() -> None:
    budget = StateBudget(10_000_000)
    turn = await budget.turn(lambda: 1_000_000)
    sink = StreamSink(1_000)
    rows = [(f"k{n}", b'{"filler":"%b"}' % (b"x" * 1_000)) for n in range(1_000)]
    sink.send_outcome(Waiting("e", False))
    sink.send_snapshot(Snapshot("e", 7, rows), False)
    sink.release_when_read(turn)
    sink.write(b"later")
    assert (await sink.take(1))[1] is False, "what was said before comes before"
    parts = 0
    while True:
        data, state = await sink.take(1)
        if not state:
            break
        assert budget.used, "the last part is not out yet"
        assert len(data) < 2 * PAGE_BYTES + 1_000
        parts += 1
    assert parts > 10
    assert (data, budget.used) == (b"later", 0)


async def test_turn_ends_with_the_reader() -> None:
    budget = StateBudget(10_000_000)
    sink = StreamSink(1_000)
    sink.write_state(b"x" * 500_000)
    sink.release_when_read(await budget.turn(lambda: 500_000))
    sink.release()
    assert budget.used == 0


async def test_long_resume_is_sent_in_parts() -> None:
    sink = StreamSink(1_000)
    pubs = [(n, b'{"n":%d,"filler":"%b"}' % (n, b"x" * 30_000)) for n in range(1, 11)]
    sink.send_outcome(Recovered("e", 10, pubs))
    read = b""
    while not sink.empty:
        data, state = await sink.take(1)
        assert state
        assert len(data) < 200_000
        read += data
    assert [n for n in range(1, 11) if b"id: e:%d\nevent: change" % n in read] == list(range(1, 11))
    assert read.endswith(b"\n\n")


def test_publications_are_cut_into_portions() -> None:
    pubs = [(n, b"x" * n) for n in range(5)]
    assert [list(some) for some in portions(pubs, 3)] == [pubs[:3], pubs[3:4], pubs[4:]]
    assert list(portions([], 3)) == []
