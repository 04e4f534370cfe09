"""The records of the benchmark, and the plain fold that rows are checked against."""

from __future__ import annotations

import json
import time
from decimal import Decimal

import pytest
from bench.records import Total, amounts, check_totals, fold_amounts, group_name, grouped, maker, stamped


def test_amounts_have_their_size_and_are_always_the_same() -> None:
    make, again = amounts(100, 200), amounts(100, 200)
    for n in (0, 1, 999, 999_999):
        assert make(n) == again(n)
        assert len(make(n)[1]) == 200
        assert json.loads(make(n)[1])["n"] == n


def test_the_plain_fold_is_what_the_values_add_up_to() -> None:
    make, sums, counts = amounts(7, 200), dict[str, Decimal](), dict[str, int]()
    for n in range(2000):
        key, value = make(n)
        amount = json.loads(value, parse_float=Decimal)["amount"]
        sums[key.decode()] = sums.get(key.decode(), Decimal(0)) + amount
        counts[key.decode()] = counts.get(key.decode(), 0) + 1
    folded = fold_amounts(7, 2000)
    assert {key: total.sum for key, total in folded.items()} == sums
    assert {key: total.count for key, total in folded.items()} == counts
    assert len(folded) == 7
    assert any(json.loads(make(n)[1])["amount"] < 0 for n in range(100)), "sums go down as well"


def test_every_kind_of_wrong_row_is_found() -> None:
    wanted = {"a": Total(100, 2), "b": Total(-5, 1)}
    right = {"a": (Decimal("1.00"), 2), "b": (Decimal("-0.05"), 1)}
    assert check_totals(right, wanted) == []
    assert check_totals({"a": right["a"]}, wanted) == ["b: missing"]
    assert check_totals({**right, "c": (Decimal(0), 1)}, wanted) == ["c: should not be there"]
    assert len(check_totals({**right, "a": (Decimal("1.01"), 2)}, wanted)) == 1
    assert len(check_totals({**right, "a": (Decimal("1.00"), 3)}, wanted)) == 1


def test_a_key_stays_in_its_group_and_the_rest_changes() -> None:
    make = grouped(50, 10, 200)
    groups: dict[bytes, str] = {}
    last: dict[bytes, dict[str, object]] = {}
    for n in range(5000):
        key, value = make(n)
        assert len(value) == 200
        row = json.loads(value)
        assert groups.setdefault(key, row["group"]) == row["group"]
        if key in last:
            assert row["n"] != last[key]["n"]
        last[key] = row
    assert set(groups.values()) == {group_name(n) for n in range(10)}
    assert len(groups) == 50


def test_a_stamp_is_of_the_moment_the_record_is_made() -> None:
    make = stamped(100)
    before = time.monotonic_ns()
    _, value = make(3)
    assert before <= json.loads(value)["t"] <= time.monotonic_ns()
    assert {make(n)[0] for n in range(1000)} == {b"k%04d" % n for n in range(100)}


def test_kinds_have_names() -> None:
    assert maker("amounts", 5, 200)(4) == amounts(5, 200)(4)
    with pytest.raises(ValueError, match="'other'"):
        maker("other", 1)
