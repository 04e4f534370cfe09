from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import BadQuery
from distributary.model.position import Position
from distributary.model.start import read_start


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
def test_what_people_write(given: str | int, start: object) -> None:
    assert read_start(given) == start


@pytest.mark.parametrize(
    "given", ["", "yesterday", "e1", ":5", "e1:", "e1:-1", "e1:x", "9" * 40, -1, 1 << 60, True]
)
def test_what_is_neither_is_refused(given: Any) -> None:
    with pytest.raises(BadQuery, match="from") as caught:
        read_start(given)
    assert caught.value.hint
