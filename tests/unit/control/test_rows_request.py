from __future__ import annotations

import pytest
from multidict import MultiDict

from distributary.control.rows_request import LIMIT, MAX_LIMIT, read_rows_request
from distributary.errors import BadQuery, BadRequest
from distributary.model.query import Query

TAG = "0123456789abcdef01234567"


def test_everything_has_a_default() -> None:
    asked = read_rows_request("odds", MultiDict())
    assert (asked.query, asked.fields, asked.limit) == (Query("odds"), None, LIMIT)
    assert (asked.tag, asked.at) == ("", 0)


def test_parameters_are_parsed() -> None:
    asked = read_rows_request(
        "odds", MultiDict(where="sport = 'golf'", fields="a,b.c", limit=str(MAX_LIMIT), page=f"{TAG}-20")
    )
    assert asked.query == Query.parse("odds", "sport = 'golf'")
    assert asked.fields is not None
    assert asked.fields.tree == {"a": None, "b": {"c": None}}
    assert (asked.limit, asked.tag, asked.at) == (MAX_LIMIT, TAG, 20)


def test_keys_are_parsed_in_both_forms() -> None:
    given = MultiDict([("keys", "a,b"), ("key", "c,d"), ("key", "")])
    assert read_rows_request("odds", given).query == Query.of_keys("odds", ["a", "b", "c,d", ""])


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ([("wher", "a = 1")], 'unknown parameter "wher"'),
        ([("limit", "0")], "limit"),
        ([("limit", "10001")], "limit"),
        ([("limit", "-1")], "limit"),
        ([("limit", "²")], "limit"),
        ([("limit", "9" * 5000)], "limit"),
        ([("limit", "1"), ("limit", "2")], "given 2 times"),
        ([("keys", "a,,b")], "empty key"),
        ([("page", "2")], "is not a page token"),
        ([("page", f"{TAG}-{'9' * 10}")], "is not a page token"),
        ([("page", f"{TAG.upper()}-1")], "is not a page token"),
    ],
)
def test_invalid_parameters_are_refused(parameters: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        read_rows_request("odds", MultiDict(parameters))
    assert caught.value.hint


@pytest.mark.parametrize(
    "parameters",
    [
        [("fields", "a,")],
        [("where", "price >>")],
        [("where", "a = 1"), ("where", "b = 1")],
        [("where", "a = 1"), ("keys", "a")],
    ],
)
def test_invalid_queries_are_refused(parameters: list[tuple[str, str]]) -> None:
    with pytest.raises(BadQuery):
        read_rows_request("odds", MultiDict(parameters))
