from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import BadQuery
from distributary.model.position import Mark, Position, read_start


@given(st.text(min_size=1), st.integers(0, 2**63))
def test_position_is_read_back(epoch: str, seq: int) -> None:
    assert Position.parse(str(Position(epoch, seq))) == Position(epoch, seq)


@pytest.mark.parametrize("text", ["", "5", ":5", "e:", "e:-1", "e:x", "e:٣"])
def test_position_rejects_other_strings(text: str) -> None:
    with pytest.raises(ValueError, match="EPOCH:NUMBER"):
        Position.parse(text)


@given(st.integers(0, 2**63), st.integers(0, 10**6))
def test_mark_is_read_back(offset: int, part: int) -> None:
    assert Mark.parse(str(Mark(offset, part))) == Mark(offset, part)


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("60745d80:1234", Position("60745d80", 1234)),
        ("20260131:05", Position("20260131", 5)),  # an epoch of digits is no date
        ("2026-01-31T18:00:00Z", 1769882400000),
        ("2026-01-31T19:00+01:00", 1769882400000),
        ("2026-01-31 18:00:00.25", 1769882400250),
        ("2026-01-31", 1769817600000),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1769882400000", 1769882400000),
        (1769882400000, 1769882400000),
    ],
)
def test_read_start_accepts_positions_and_times(given: str | int, start: object) -> None:
    assert read_start(given) == start


@pytest.mark.parametrize(
    "given", ["", "yesterday", "e1", ":5", "e1:", "e1:-1", "e1:x", "9" * 40, -1, 1 << 60, True]
)
def test_read_start_rejects_everything_else(given: Any) -> None:
    with pytest.raises(BadQuery, match="from") as caught:
        read_start(given)
    assert caught.value.hint
