"""Query parameters and channel names become queries."""

from __future__ import annotations

import pytest

from distributary.errors import BadQuery
from distributary.model.order import parse_order
from distributary.model.query import Query
from distributary.model.query_params import ChannelQuery, channel_query, parse_channel


def test_query_params_accept_every_form() -> None:
    assert parse_channel("odds").query == Query("odds")
    assert parse_channel("odds?where=a%20%3D%201").query == Query.parse("odds", "a = 1")
    assert parse_channel("odds?keys=a,b%2Cc&key=d").query == Query.of_keys("odds", ["a", "b,c", "d"])
    ordered = Query.parse("odds", "a = 1").ordered(parse_order("price desc, b", 10))
    assert parse_channel("odds?where=a=1&order=price+desc,b&limit=10").query == ordered
    assert parse_channel("q:odds:ab12") == ChannelQuery("odds", None, "ab12")


@pytest.mark.parametrize(
    "name",
    [
        *("", "?where=a", "q:", "q:odds", "odds?x=1", "odds?where=%ff", "odds?where=a"),
        *("odds?order=a", "odds?limit=1", "odds?order=a&limit=0", "odds?order=a+b&limit=1"),
    ],
)
def test_invalid_query_params_are_rejected(name: str) -> None:
    with pytest.raises(BadQuery):
        parse_channel(name)


def test_equal_queries_are_one() -> None:
    one, other = (
        parse_channel("odds?where=a%3D1%20and%20b%3D2"),
        parse_channel("odds?where=b=2+and+a=1.0"),
    )
    assert one.query_id == other.query_id
    with pytest.raises(BadQuery):
        channel_query("odds", ["a = 1"], ["k"])
    with pytest.raises(BadQuery):
        channel_query("odds", ["a = 1", "b = 1"], [])
