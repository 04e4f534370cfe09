"""Orders are parsed, total and exact."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.model.order import MAX_FIELDS, By, Order, order_of, parse_order
from distributary.model.query import Query

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.text(max_size=3),
    st.just({}),
    st.just([1]),
)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("price", (By(("price",)),)),
        ("price desc, score.home ASC", (By(("price",), True), By(("score", "home")))),
        ("`odd name` desc", (By(("odd name",), True),)),
        ("a, b, a desc", (By(("a",)), By(("b",)))),
        ("desc desc", (By(("desc",), True),)),
    ],
)
def test_parse_order_accepts_fields_and_directions(text: str, by: tuple[By, ...]) -> None:
    assert parse_order(text, "10") == Order(by, 10)


@pytest.mark.parametrize(
    ("text", "limit", "message"),
    [
        ("", 1, "expected the name of a field, but the order ends at character 1 of the order ''"),
        ("price dsc", 1, "found dsc at character 7 of the order 'price dsc'"),
        ("price,", 1, "the order ends at character 7"),
        ("price, 5", 1, "found 5 at character 8"),
        ("a.", 1, "the order ends at character 3"),
        ("a ; b", 1, "at character 3 of the order"),
        (", ".join(f"f{n}" for n in range(MAX_FIELDS + 1)), 1, "too many fields at character 33"),
        ("a" * 2_000, 1, "too long"),
        ("a", 0, "limit='0' is not a number of rows"),
        ("a", "-1", "not a number of rows"),
        ("a", "1.5", "not a number of rows"),
        ("a", True, "not a number of rows"),
        ("a", "9" * 30, "not a number of rows"),
    ],
)
def test_parse_order_error_names_the_character(text: str, limit: str | int, message: str) -> None:
    with pytest.raises(BadQuery, match=message.replace("'", ".")):
        parse_order(text, limit)


def test_order_and_limit_require_each_other() -> None:
    assert order_of(None, None) is None
    assert order_of("a", 3) == Order((By(("a",)),), 3)
    for order, limit in ((None, 3), ("a", None)):
        with pytest.raises(BadQuery, match="requires"):
            order_of(order, limit)


def test_normal_form_of_a_query_contains_its_order() -> None:
    plain = Query.parse("odds", "a = 1")
    query = plain.ordered(parse_order("score.home desc, b", 5))
    assert query.id != plain.id
    assert Query.load("odds", query.text) == query
    assert query.narrowed("b = 2").order == query.order
    assert Query.load("odds", plain.text).order is None


def text_of(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def kind(value: Any) -> int:
    if value is None:
        return 9
    if isinstance(value, bool):
        return 2
    return 0 if isinstance(value, (int, Decimal)) else 1 if isinstance(value, str) else 3


def compare(a: Any, b: Any, descending: bool) -> int:
    """The order in plain words: by kind, then by value; null last whatever the direction."""
    if kind(a) == 9 or kind(b) == 9:
        return (kind(a) == 9) - (kind(b) == 9)
    found = kind(a) - kind(b)
    if not found and kind(a) != 3:
        found = (a > b) - (a < b)
    return -found if descending else found


@given(
    st.lists(st.tuples(SCALARS, SCALARS, st.booleans()), max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_rank_agrees_with_the_reference(rows: list[tuple[Any, Any, bool]], first: bool, second: bool) -> None:
    order = Order((By(("a",), first), By(("b", "c"), second)), 3)
    keyed = {}
    for n, (a, c, there) in enumerate(rows):
        nested = f'{{"c":{text_of(c)}}}' if there else "7"
        keyed[f"k{n}"] = (f'{{"a":{text_of(a)},"b":{nested}}}'.encode(), a, c if there else None)

    def by(one: str, other: str) -> int:
        (_, a, c), (_, b, d) = keyed[one], keyed[other]
        return compare(a, b, first) or compare(c, d, second) or (one > other) - (one < other)

    expected = sorted(keyed, key=cmp_to_key(by))
    assert sorted(keyed, key=lambda key: order.rank(key, keyed[key][0])) == expected


def test_rank_compares_numbers_exactly_and_puts_non_objects_last() -> None:
    order = parse_order("n desc", 3)
    rows = {
        "a": b'{"n":9007199254740993}',
        "b": b'{"n":9007199254740992.5}',
        "c": b'{"n":9007199254740992}',
        "d": b'{"n":1.10}',
        "e": b'{"n":1.1}',
        "f": b'"text"',
    }
    assert sorted(rows, key=lambda key: order.rank(key, rows[key])) == list("abcdef")
