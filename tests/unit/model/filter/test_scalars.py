"""Scalars: exact numbers, and one canonical form for equal values."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.filter.scalars import FALSE, OTHER, TRUE, canonical, number, read_number, scalar


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_equal_numbers_have_one_canonical_form(value: Decimal, zeros: int) -> None:
    plain = format(value, "f")
    text = number(plain)
    assert number(str(value)) == text
    assert number((plain if "." in plain else plain + ".0") + "0" * zeros) == text
    assert Decimal(text) == value


@given(st.none() | st.booleans() | st.integers() | st.text())
def test_canonical_scalars_differ_by_type_and_value(value: object) -> None:
    text = json.dumps(value).encode()
    form = canonical(text)
    assert form == canonical(json.dumps(value, ensure_ascii=False).encode())
    assert canonical(b'"' + b"z" * 50 + b'"') != form


@given(st.integers() | st.decimals(allow_nan=False, allow_infinity=False))
def test_numbers_are_parsed_exactly(value: int | Decimal) -> None:
    found = scalar(str(value).encode())
    assert not isinstance(found, float)
    assert found == value
    assert read_number(str(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"true", TRUE),
        (b"false", FALSE),
        (b"null", None),
        (b"{}", OTHER),
        (b"[1]", OTHER),
        (b'"\\u00e9"', "é"),
        (b"1e99999999999999999999", OTHER),
        (b"-0", 0),
        (b"9" * 5000, Decimal("9" * 5000)),
    ],
)
def test_scalar_parses_strings_booleans_and_null(text: bytes, value: object) -> None:
    assert scalar(text) == value


def test_true_does_not_equal_one() -> None:
    truths: list[object] = [TRUE, FALSE]
    assert 1 not in truths
    assert 0 not in truths
    assert canonical(b"true") == "true"
    assert canonical(b"[]") is None
