"""Positions and marks survive being written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.position import Mark, Position


@given(st.text(min_size=1), st.integers(0, 2**63))
def test_a_position_reads_back(epoch: str, seq: int) -> None:
    assert Position.parse(str(Position(epoch, seq))) == Position(epoch, seq)


@pytest.mark.parametrize("text", ["", "5", ":5", "e:", "e:-1", "e:x", "e:٣"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="EPOCH:NUMBER"):
        Position.parse(text)


@given(st.integers(0, 2**63), st.integers(0, 10**6))
def test_a_mark_reads_back(offset: int, part: int) -> None:
    assert Mark.parse(str(Mark(offset, part))) == Mark(offset, part)
