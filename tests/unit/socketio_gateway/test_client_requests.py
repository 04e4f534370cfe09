from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery, BadRequest
from distributary.model.channel_name import decode_channel
from distributary.socketio_gateway.client_requests import FIELDS, read

texts = st.text("ab ?&=%,'+é/<\"", min_size=1)


@given(texts, st.none() | texts)
def test_view_and_filter_become_a_channel(view: str, where: str | None) -> None:
    request = read("subscribe", ({"view": view, "where": where},))
    assert decode_channel(request.channel)[:3] == (view, where, None)


def test_options_become_parameters() -> None:
    given = {"view": "odds", "keys": ["a", "b"], "fields": ["p", "s.x"], "data": {"conflate": "2 s"}}
    request = read("subscribe", (given | {"recover": {"epoch": "e", "offset": 7}},))
    assert request.params == {
        "channel": "odds?keys=a,b&fields=p,s.x",
        "data": {"conflate": "2 s"},
        "recover": True,
        "epoch": "e",
        "offset": 7,
    }
    assert read("subscribe", ({"view": "odds", "fields": ["p"]},)).channel == "odds?fields=p"
    assert read("history", ({"channel": "c", "since": {"epoch": "e", "offset": 0}},)).params["since"]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.data(), st.sampled_from(sorted(FIELDS)), st.lists(json_like, max_size=2))
def test_any_payload_is_read_or_refused(data: st.DataObject, event: str, payload: list[Any]) -> None:
    names: set[str] = data.draw(st.sets(st.sampled_from(FIELDS[event])))
    if payload and names:
        payload = [dict.fromkeys(names, payload[0])]
    with contextlib.suppress(BadRequest, BadQuery):
        assert read(event, tuple(payload)).method == event


@pytest.mark.parametrize("given", [{"channel": "c", "where": "a = 1"}, {"channel": "c", "view": "v"}])
def test_channel_with_a_query_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        read("subscribe", (given,))
