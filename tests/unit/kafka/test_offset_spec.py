from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.offset_spec import Kind, OffsetRange, OffsetSpec, parse, parse_time, resolve


def at() -> float:
    return 1_000_000.0


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("earliest", OffsetSpec("earliest")),
        ("end", OffsetSpec("latest")),
        ("42", OffsetSpec("offset", 42)),
        ("-10", OffsetSpec("back", 10)),
        ("15 m", OffsetSpec("time", 999_100_000)),
        ("PT1H", OffsetSpec("time", 996_400_000)),
        ("P1D", OffsetSpec("time", 913_600_000)),
        ("1970-01-02T00:00:00Z", OffsetSpec("time", 86_400_000)),
        ("1970-01-02T01:00:00.500+01:00", OffsetSpec("time", 86_400_500)),
        ("1970-01-02", OffsetSpec("time", 86_400_000)),
    ],
)
def test_parse_accepts_words_offsets_times_and_durations(text: str, spec: OffsetSpec) -> None:
    assert parse(text, at) == spec


@pytest.mark.parametrize("text", ["", "soon", "1x", "--5", "P", "PT"])
def test_parse_refuses_other_text(text: str) -> None:
    with pytest.raises(UsageError, match="not an offset or a time"):
        parse_time(text, at) if text == "--5" else parse(text, at)


ranges = st.integers(0, 100).flatmap(
    lambda first: st.builds(
        OffsetRange, st.just(first), st.integers(first, 200), st.none() | st.integers(first, 200)
    )
)
kinds = st.sampled_from(get_args(Kind))


@given(kinds, st.integers(-300, 300), ranges, st.integers(0, 300))
def test_resolved_offset_is_always_within_the_range(
    kind: Kind, value: int, range: OffsetRange, current: int
) -> None:
    found = resolve(OffsetSpec(kind, value), range, current)
    assert range.first <= found <= range.end


def test_shift_needs_a_current_offset() -> None:
    range = OffsetRange(10, 50)
    assert resolve(OffsetSpec("shift", -5), range, 30) == 25
    assert resolve(OffsetSpec("current"), range, 30) == 30
    with pytest.raises(UsageError, match="has not committed"):
        resolve(OffsetSpec("shift", 1), range)
