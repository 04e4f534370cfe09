"""Bytes on the wire."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from distributary.publish import codes, frames


@given(
    st.text(), st.lists(st.tuples(st.integers(1, 1 << 60), st.sampled_from([b"{}", b'{"a":\n1}', b"1.50"])))
)
def test_pushes_are_lines_of_json(channel: str, pubs: list[frames.Pub]) -> None:
    text = frames.pushes(frames.push_head(channel), pubs)
    lines = text.split(b"\n") if text else []
    said = [json.loads(line)["push"] for line in lines]
    assert [(push["channel"], push["pub"]["offset"]) for push in said] == [(channel, n) for n, _ in pubs]


def test_values_keep_their_text() -> None:
    data = b'{"n":12345678901234567890.100,"m":1e5}'
    assert data in frames.pushes(frames.push_head("c"), [(1, data)])
    assert data in frames.subscribed("e", 1, data, recovering=False)
    assert data in frames.publications([(1, data)])


def test_closes() -> None:
    frame = frames.close_frame(codes.SLOW)
    assert frame == b"\x88\x06" + (3008).to_bytes(2, "big") + b"slow"
    assert len(frames.close_frame(codes.Ending(3001, "x" * 500))) <= 127


def test_errors_say_whether_to_try_again() -> None:
    assert json.loads(b"{" + frames.error(codes.UNRECOVERABLE) + b"}") == {
        "error": {"code": 112, "message": "unrecoverable position"}
    }
    assert json.loads(b"{" + frames.error(codes.INTERNAL) + b"}")["error"]["temporary"] is True


def test_unsubscribe() -> None:
    assert json.loads(frames.unsubscribe('o"', codes.INSUFFICIENT)) == {
        "push": {"channel": 'o"', "unsubscribe": {"code": 2500, "reason": "insufficient state"}}
    }
