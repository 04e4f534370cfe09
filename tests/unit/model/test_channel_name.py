from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.model.channel_name import decode_channel, decode_registered, encode_channel, with_fields
from distributary.model.query import Query

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VIEWS = TEXT.filter(bool)


@given(VIEWS, TEXT)
def test_filter_is_decoded_from_its_channel(view: str, where: str) -> None:
    assert decode_channel(encode_channel(view, where=where))[:3] == (view, where, None)


@given(VIEWS, st.lists(TEXT, min_size=1, max_size=5))
def test_keys_are_decoded_from_their_channel(view: str, keys: list[str]) -> None:
    found = decode_channel(encode_channel(view, keys=keys))
    assert (found.view, found.where) == (view, None)
    assert set(found.keys or ()) == set(keys)


@given(VIEWS)
def test_whole_view_is_decoded_from_its_channel(view: str) -> None:
    assert decode_channel(encode_channel(view))[:3] == (view, None, None)


@given(VIEWS, st.none() | TEXT, TEXT)
def test_fields_are_decoded_from_their_channel(view: str, where: str | None, fields: str) -> None:
    found = decode_channel(encode_channel(view, where, fields=fields))
    assert (found.view, found.where, found.fields) == (view, where, fields)


@given(VIEWS, st.none() | TEXT, TEXT, st.integers(1, 9_999))
def test_order_is_decoded_from_its_channel(view: str, where: str | None, order: str, limit: int) -> None:
    found = decode_channel(encode_channel(view, where, order=order, limit=limit))
    assert found == (view, where, None, None, order, str(limit))


def test_decode_accepts_every_documented_form() -> None:
    assert encode_channel("odds") == "odds"
    assert encode_channel("odds", where="sport = 'football'") == "odds?where=sport%20%3D%20'football'"
    assert encode_channel("odds", keys=["a", "b"]) == "odds?keys=a,b"
    assert decode_channel("odds?where=sport+%3D+%27football%27").where == "sport = 'football'"
    assert decode_channel("odds?key=a&key=b").keys == ["a", "b"]
    assert decode_channel("odds?keys=a%2Cb,c").keys == ["a,b", "c"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "has no view"),
        ("?where=a", "has no view"),
        ("odds?wher=a", "unknown option 'wher=a'"),
        ("odds?where", "unknown option"),
        ("odds?keys=", "empty key"),
        ("odds?keys=a,,b", "empty key"),
        ("odds?keys=a&where=b", "not both"),
        ("odds?where=a&where=b", "two filters"),
        ("odds?fields=a&fields=b", "two lists of fields"),
        ("odds?order=a&order=b&limit=1", "order twice"),
        ("odds?where=%ff", "not percent-encoded UTF-8"),
        ("q:odds:1234", "registered channel"),
    ],
)
def test_invalid_channel_name_is_rejected_with_a_reason(name: str, message: str) -> None:
    with pytest.raises(BadQuery, match=message):
        decode_channel(name)


@pytest.mark.parametrize(("where", "keys"), [("a = 1", ["k"]), (None, [])])
def test_encode_rejects_keys_with_a_filter_and_no_keys(where: str | None, keys: list[str]) -> None:
    with pytest.raises(BadQuery):
        encode_channel("odds", where, keys)


def test_registered_channel_name_is_decoded() -> None:
    query = Query.parse("odds", "a = 1")
    assert decode_registered(query.channel) == ("odds", query.id, None)
    assert decode_registered(with_fields(query.channel, "a,b:c")) == ("odds", query.id, "a,b:c")
    assert decode_registered(query.channel + "?fields=a:b")[1:] == (query.id, "a:b")  # type: ignore[index]
    with pytest.raises(BadQuery, match=r"unknown option 'where=a'"):
        decode_registered(query.channel + "?where=a")
    assert decode_registered("odds?where=a") is None
    assert decode_registered("q:odds") is None
