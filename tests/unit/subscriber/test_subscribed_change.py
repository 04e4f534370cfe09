from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distributary.subscriber.subscribed_change import (
    SubscribedChange,
    SubscribedRows,
    decode_json,
    encode_json,
    insert_row,
)

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | DECIMALS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_encoded_json_decodes_to_the_same(value: Any) -> None:
    text = encode_json(value)
    assert decode_json(text) == value
    json.loads(text)


def test_numbers_keep_their_digits() -> None:
    assert decode_json("1.10") == Decimal("1.10")
    assert (
        encode_json(decode_json('{"a":[1.10,1e5,-0.0,12345678901234567890]}'))
        == '{"a":[1.10,1E+5,-0.0,12345678901234567890]}'
    )


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 6))))
def test_row_is_inserted_at_its_rank(puts: list[tuple[str, int | None]]) -> None:
    rows: dict[str, Any] = {}
    keys: list[str] = []
    for n, (key, at) in enumerate(puts):
        insert_row(rows, key, {"n": n}, at)
        if key not in keys or at is not None:
            keys = [one for one in keys if one != key]
            keys.insert(len(keys) if at is None else at, key)
        assert (list(rows), rows[key]) == (keys, {"n": n})


def test_rows_follow_the_changes() -> None:
    followed = SubscribedRows()
    followed.apply(SubscribedChange("snapshot", rows={"a": {}}, stale=True))
    followed.apply(SubscribedChange("add", "b", {"n": 1}))
    followed.apply(SubscribedChange("remove", "a"))
    followed.apply(SubscribedChange("remove", "never there"))
    assert (followed.rows, followed.stale) == ({"b": {"n": 1}}, True)
    followed.apply(SubscribedChange("fresh"))
    assert not followed.stale
