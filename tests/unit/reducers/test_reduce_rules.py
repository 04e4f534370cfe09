"""Reduce rules against plain references."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.view import View
from distributary.reducers.reduce_rules import (
    Aggregate,
    Event,
    Function,
    Latest,
    Merge,
    Record,
    rule_of,
    window_start,
)
from distributary.reducers.row_json import Unreadable, describe_change, read_object, write_object

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def record(value: Any, **words: Any) -> Record:
    text = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    body = None if text is None else read_object(text)
    facts = {"partition": 0, "offset": 1, "part": 0, "time": 5, "event_time": 5, "key": "k", "value": body}
    return Record(**{**facts, **words})


def plain_merge(target: Any, patch: Any) -> Any:
    """RFC 7396, word for word."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = plain_merge(out.get(name), value)
    return out


@given(st.lists(objects, min_size=1, max_size=6))
def test_merge_follows_rfc_7396(patches: list[dict[str, Any]]) -> None:
    row = None
    expected: dict[str, Any] = {}
    for patch in patches:
        row = Merge().fold(row, b"", record(patch))[0]
        expected = plain_merge(expected, patch)
    assert row is not None
    assert json.loads(write_object(row)) == expected


@pytest.mark.parametrize(
    "digits", [b"1.10", b"12345678901234567890123", b"0.1000000000000000055511151231", b"1e400"]
)
def test_merge_keeps_the_digits_of_numbers(digits: bytes) -> None:
    row = Merge().fold(None, b"", record(b'{"p":' + digits + b"}"))[0]
    assert row is not None
    assert write_object(row) == b'{"p":' + digits + b"}"


def test_tombstone_removes_the_row() -> None:
    row = read_object(b'{"a":1}')
    assert Merge().fold(row, b"", record(None))[0] is None
    assert Latest().fold(row, b"", record(None))[0] is None


def test_latest_replaces_the_row() -> None:
    row = Latest().fold(read_object(b'{"a":1,"b":2}'), b"", record({"a": 3}))[0]
    assert row is not None
    assert write_object(row) == b'{"a":3}'


@pytest.mark.parametrize("value", [b"[1]", b"5", b"{", b'{"a":NaN}', b'{"a":"\xff"}', b"", b"nope"])
def test_value_that_is_not_a_json_object_is_unreadable(value: bytes) -> None:
    with pytest.raises(Unreadable):
        Merge().fold(None, b"", record(value))


def test_row_is_written_as_one_line() -> None:
    row = Merge().fold(None, b"", record(b'{"a": {\n "b": [1,\r\n 2.50]}}'))[0]
    assert row is not None
    assert write_object(row) == b'{"a":{"b":[1,2.50]}}'


@given(objects, objects)
def test_a_described_change_leads_from_the_old_row_to_the_new(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    before, after = read_object(json.dumps(old).encode()), read_object(json.dumps(new).encode())
    text = describe_change(before, after)
    if before == after:  # as JSON: in Python, False equals 0
        assert text == b""
        return
    change = json.loads(b"{" + text + b"}")
    out = {k: v for k, v in old.items() if k not in change.get("gone", [])} | change["changed"]
    assert out == new


numbers = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)


@given(st.lists(st.none() | numbers, min_size=1, max_size=20))
def test_aggregates_are_exact(given_values: list[Decimal | None]) -> None:
    rule = Aggregate(
        {f: (f, False) for f in ("count", "sum", "min", "max", "avg", "last")} | {"n": ("count", True)}
    )
    row, state = None, b""
    for value in given_values:
        text = b"null" if value is None else str(value).encode()
        fields = b",".join(
            b'"%b":%b' % (f.encode(), text) for f in ("count", "sum", "min", "max", "avg", "last")
        )
        row, state = rule.fold(row, state, record(b"{" + fields + b"}"))
    assert row is not None
    got = {k: msgspec.json.decode(bytes(v), type=Decimal | None) for k, v in row.items()}
    there = [v for v in given_values if v is not None]
    assert got["n"] == len(given_values)
    assert got["count"] == len(there)
    if there:
        assert got["sum"] == sum(there)
        assert (got["min"], got["max"], got["last"]) == (min(there), max(there), there[-1])
        assert got["avg"] is not None
        assert abs(got["avg"] - sum(there, Decimal(0)) / len(there)) < Decimal("1e-15")
    else:
        assert got["sum"] is None


def test_aggregate_of_a_value_that_is_not_a_number_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="not a number"):
        Aggregate({"s": ("sum", False)}).fold(None, b"", record({"s": "abc"}))


def test_windowed_row_has_start_and_end_of_its_window() -> None:
    row, _ = Aggregate({"n": ("count", True)}, 60.0).fold(None, b"", record({}, event_time=125_000))
    assert row is not None
    assert write_object(row) == b'{"n":1,"window_start":120000,"window_end":180000}'
    assert window_start(119_999, 60) == 60_000


def fold_for_test(row: dict[str, Any] | None, event: Event) -> dict[str, Any] | None:
    if event.tombstone:
        return None
    return {"total": (row["total"] if row else 0) + event["n"], "at": event.offset, "key": event.key}


def test_function_rule_is_loaded_by_import_path() -> None:
    rule = rule_of(View("v", "f", reduce=f"{__name__}:fold_for_test"))
    row = rule.fold(None, b"", record(b'{"n":1.10}'))[0]
    row = rule.fold(row, b"", record(b'{"n":2}'))[0]
    assert row is not None
    assert write_object(row) == b'{"total":3.10,"at":1,"key":"k"}'
    assert rule.fold(row, b"", record(None))[0] is None


def test_function_rule_must_return_a_row() -> None:
    with pytest.raises(Unreadable, match="not a dict"):
        Function(lambda row, event: 5).fold(None, b"", record({}))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("name", ["nope", "no.such.module:f", "json:no_such"])
def test_rule_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=name.split(":")[0]):
        rule_of(View("v", "f", reduce=name))
