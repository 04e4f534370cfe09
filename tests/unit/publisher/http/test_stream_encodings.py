"""How HTTP streams are written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.http.stream_encodings import JSON_LINES, SSE, EventOutlet, Shape, shape_of


@pytest.mark.parametrize(
    ("accept", "shape"),
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
def test_shapes_by_accept(accept: str, shape: Shape) -> None:
    assert shape_of(accept) is shape


@given(
    st.text(st.characters(exclude_characters="\r\n:", codec="utf-8")),
    st.lists(st.tuples(st.integers(1, 1 << 60), st.sampled_from([b"{}", b'{"a":\r\n1}', b'"x"']))),
)
def test_lines_are_json(epoch: str, pubs: list[tuple[int, bytes]]) -> None:
    lines = EventOutlet(JSON_LINES).encode(epoch, pubs).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [
        {"event": "change", "id": f"{epoch}:{n}", "data": json.loads(data)} for n, data in pubs
    ]


def test_events_without_an_id() -> None:
    assert JSON_LINES.event("end", b'{"code":1}') == b'{"event":"end","data":{"code":1}}\n'
    assert EventOutlet(JSON_LINES).notice(b'{"op":"fresh"}') == b'{"event":"stale","data":{"op":"fresh"}}\n'
    assert EventOutlet(SSE).notice(b'{"op":"fresh"}') == b'event: stale\ndata: {"op":"fresh"}\n\n'
    assert json.loads(JSON_LINES.heartbeat) == {"event": "heartbeat"}


def test_events() -> None:
    assert SSE.changes("e", [(1, b"{}"), (2, b'{"a":\n1}')]) == (
        b'id: e:1\nevent: change\ndata: {}\n\nid: e:2\nevent: change\ndata: {"a": 1}\n\n'
    )
    assert SSE.event("ready", b"{}", "e:1") == b"id: e:1\nevent: ready\ndata: {}\n\n"
