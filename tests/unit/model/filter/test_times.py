"""Times and durations as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.filter.scalars import OTHER, TRUE
from distributary.model.filter.times import as_time, parse_interval, parse_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30)), zones)
def test_parse_time_agrees_with_python(plain: datetime, zone: timezone) -> None:
    zoned = plain.replace(tzinfo=zone)
    wanted = Decimal((zoned - EPOCH) // timedelta(microseconds=1)) / 1000
    assert parse_time(zoned.isoformat()) == wanted
    assert parse_time(plain.isoformat(" ")) == parse_time(plain.isoformat() + "Z")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:01", 60_000),
        ("1970-01-01T00:00:00.000000000001Z", Decimal("1e-9")),
        ("1969-12-31T23:59:59.9995Z", Decimal("-0.5")),
        ("1970-01-01T01:00:00+0100", 0),
        ("1970-01-01t01:00:00,5+01", 500),
    ],
)
def test_parse_time_accepts_iso_8601(text: str, ms: object) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026",
        "2026-1-1",
        "2026-02-30",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00Z\n",
        "0000-01-01",
        "٢٠٢٦-01-01",
    ],
)
def test_parse_time_returns_none_for_other_strings(text: str) -> None:
    assert parse_time(text) is None


@given(st.text(max_size=30) | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", fullmatch=True))
def test_parse_time_never_raises(text: str) -> None:
    parse_time(text)
    parse_interval(text)


def test_as_time_accepts_strings_and_milliseconds() -> None:
    assert as_time("1970-01-01") == 0
    assert as_time(Decimal("1.5")) == Decimal("1.5")
    assert [as_time(value) for value in (None, TRUE, OTHER, "soon")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90000),
        ("500 ms", 500),
        ("1.5h", 5400000),
        ("2 Hours", 7200000),
        ("1 day 30 minutes", 88200000),
        ("2d", 172800000),
        ("5m", 300000),
        ("1 second", 1000),
        ("0s", 0),
    ],
)
def test_parse_interval_accepts_numbers_with_units(text: str, ms: int) -> None:
    assert parse_interval(text) == ms


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 weeks", "-5s", "0.5ms", "5s x", "1e3s", "99999999999d", "200000 days"]
)
def test_parse_interval_returns_none_for_other_strings(text: str) -> None:
    assert parse_interval(text) is None
