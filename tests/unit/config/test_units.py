from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.config.units import (
    MAX_DURATION,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    parse_start,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (30, 30.0),
        (0.25, 0.25),
        ("30", 30.0),
        ("500 ms", 0.5),
        ("500ms", 0.5),
        ("30 s", 30.0),
        ("1.5 sec", 1.5),
        ("5 minutes", 300.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("2 Days", 172800.0),
        (" .5 s ", 0.5),
        (0, 0.0),
    ],
)
def test_parse_duration_accepts_numbers_with_units(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1 s", "1 parsec", "1,5 s", "1 h 30", "1e3 s", "٣ s", -1, float("nan"), float("inf"), 10**400],
)
def test_parse_duration_rejects_other_strings(text: str | float) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@given(st.floats(0, MAX_DURATION))
def test_duration_round_trips_exactly(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 10**9), st.sampled_from(["ms", "s", "minutes", "h"]))
def test_formatted_duration_is_parsed_back(count: int, unit: str) -> None:
    seconds = count * {"ms": 0.001, "s": 1, "minutes": 60, "h": 3600}[unit]
    if seconds <= MAX_DURATION:
        read = parse_duration(f"{count} {unit}")
        assert read == pytest.approx(seconds)
        assert parse_duration(format_duration(read)) == read


def test_durations_are_printed_in_the_largest_whole_unit() -> None:
    texts = [format_duration(s) for s in (0.0, 0.005, 1.5, 60.0, 300.0, 90.0, 3600.0, 7200.0)]
    assert texts == ["0 s", "5 ms", "1500 ms", "1 minute", "5 minutes", "90 s", "1 hour", "2 hours"]


@pytest.mark.parametrize(
    ("text", "size"),
    [(65536, 65536), ("64k", 65536), ("1 MiB", 1 << 20), ("2g", 2 << 30), ("1.5 KiB", 1536), ("7 b", 7)],
)
def test_parse_size_accepts_numbers_with_units(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "k", "-1", -1, "1.5", "0.3k", "1 TiB", "1 MB"])
def test_parse_size_rejects_other_strings(text: str | int) -> None:
    with pytest.raises(ValueError, match=r"expected|KiB|MiB"):
        parse_size(text)


@given(st.integers(0, 1 << 50))
def test_size_round_trips_exactly(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_parse_start_returns_equal_strings_for_equal_times() -> None:
    paris = timezone(timedelta(hours=2))
    spellings: list[str | date] = [
        "2026-05-01T08:00:00Z",
        "2026-05-01T10:00:00+02:00",
        "2026-05-01T08:00:00",
        "2026-05-01 08:00",
        datetime(2026, 5, 1, 10, tzinfo=paris),
        datetime(2026, 5, 1, 8),
    ]
    assert {parse_start(text) for text in spellings} == {"2026-05-01T08:00:00+00:00"}
    assert parse_start(date(2026, 5, 1)) == parse_start("2026-05-01") == "2026-05-01T00:00:00+00:00"
    assert (parse_start("earliest"), parse_start("now")) == ("earliest", "now")


@pytest.mark.parametrize("text", ["", "latest", "Now", "yesterday", "2026-13-01", "0001-01-01T00:00+05:00"])
def test_parse_start_rejects_other_strings(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_start(text)
