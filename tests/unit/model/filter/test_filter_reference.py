"""The reference itself: its truth tables."""

from __future__ import annotations

import pytest
from tests.support.filter_reference import truth
from tests.support.sample_filters import fields

from distributary.model.filter import parse

T, F, U = "t = 1", "f = 1", "u = 1"
ROW = fields({"t": 1, "f": 0})


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (T, True),
        (F, False),
        (U, None),
        (f"not {T}", False),
        (f"not {F}", True),
        (f"not {U}", None),
        (f"{T} and {U}", None),
        (f"{F} and {U}", False),
        (f"{U} and {U}", None),
        (f"{T} or {U}", True),
        (f"{F} or {U}", None),
        (f"{U} or {U}", None),
        ("u is null", True),
        ("t is null", False),
        ("u in (1, 2)", None),
        ("u not in (1, 2)", None),
        ("t not in (1, 2)", False),
        ("t between 0 and 2", True),
        ("u between 0 and 2", None),
        ("t between 2 and 0", False),
        ("t like '1'", None),
        ("t = '1'", None),
        ("t = true", None),
        ("t > now()", True),
    ],
)
def test_reference_has_three_truth_values(where: str, wanted: bool | None) -> None:
    assert truth(parse(where), ROW) is wanted
