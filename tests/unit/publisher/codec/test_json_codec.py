"""The client protocol in JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.codec import codes
from distributary.publisher.codec.client_commands import Command
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.publication import Publication


@given(
    st.text(), st.lists(st.tuples(st.integers(1, 1 << 60), st.sampled_from([b"{}", b'{"a":\n1}', b"1.50"])))
)
def test_pushes_are_lines_of_json(channel: str, pubs: list[Publication]) -> None:
    text = JSON.pushes(JSON.push_head(channel), pubs)
    lines = text.split(b"\n") if text else []
    message = [json.loads(line)["push"] for line in lines]
    assert [(push["channel"], push["pub"]["offset"]) for push in message] == [(channel, n) for n, _ in pubs]


def test_values_keep_their_text() -> None:
    data = b'{"n":12345678901234567890.100,"m":1e5}'
    assert data in JSON.pushes(JSON.push_head("c"), [(1, data)])
    assert data in JSON.subscribed("e", 1, data, recovering=False)
    assert data in JSON.recovered("e", 1, [(1, data)], b"{}")
    assert data in JSON.recovered("e", 1, [], data)
    assert data in JSON.history("e", 1, [(1, data)])


def test_error_says_whether_to_retry() -> None:
    assert json.loads(b"{" + JSON.error(codes.UNRECOVERABLE) + b"}") == {
        "error": {"code": 112, "message": "unrecoverable position"}
    }
    assert json.loads(b"{" + JSON.error(codes.INTERNAL) + b"}")["error"]["temporary"] is True


def test_unsubscribe_push_has_its_code() -> None:
    assert json.loads(JSON.unsubscribe('o"', codes.INSUFFICIENT)) == {
        "push": {"channel": 'o"', "unsubscribe": {"code": 2500, "reason": "insufficient state"}}
    }


def test_replies_without_data_are_empty_objects() -> None:
    assert JSON.reply(1, JSON.published()) == b'{"id":1,"publish":{}}'
    assert JSON.reply(2, JSON.called(b'{"a":\n1}')) == b'{"id":2,"rpc":{"data":{"a": 1}}}'


def test_commands_are_lines() -> None:
    assert list(JSON.decode(b'{"id":1,"ping":{}}\n\n{}')) == [Command(id=1, ping={}), Command()]
    assert list(JSON.decode(b"\n")) == [None]
