"""Durations, sizes and times as people write them. Pure; an invalid one raises ValueError."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal

MAX_DURATION = 3_155_760_000.0
"""A hundred years: a longer one is probably a wrong unit; there is "never" for no limit."""

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")

_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), Decimal("0.001")),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), Decimal(1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hour", "hours"), Decimal(3600)),
    **dict.fromkeys(("d", "day", "days"), Decimal(86400)),
}

_BYTES = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kib"), 1 << 10),
    **dict.fromkeys(("m", "mib"), 1 << 20),
    **dict.fromkeys(("g", "gib"), 1 << 30),
}


def parse_duration(value: str | int | float) -> float:
    """Parse seconds: a number, or a number and a unit ("500 ms", "30 s", "5 minutes", "1h", "2 days")."""
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        scale = _SECONDS.get(match[2].lower()) if match else None
        if match is None or scale is None:
            raise ValueError('expected a duration such as 30, "500 ms", "30 s", "5 minutes" or "1h"')
        seconds = float(Decimal(match[1]) * scale)
    else:
        seconds = float(min(value, 1e300))  # an integer may be too large for a float
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("expected a duration of 0 or more")
    if seconds > MAX_DURATION:
        raise ValueError("expected a duration of at most 100 years")
    return seconds


def format_duration(seconds: float) -> str:
    """Format seconds in the largest whole unit; `parse_duration` is the exact inverse."""
    exact = Decimal(repr(seconds))
    if exact == 0:
        return "0 s"
    for scale, one, many in ((3600, "hour", "hours"), (60, "minute", "minutes"), (1, "s", "s")):
        count, rest = divmod(exact, scale)
        if rest == 0:
            return f"{count:f} {one if count == 1 else many}"
    thousands = exact * 1000
    if thousands == thousands.to_integral_value():
        return f"{thousands.to_integral_value():f} ms"
    return f"{exact:f} s"


def parse_size(value: str | int) -> int:
    """Parse bytes: an integer, or a number and a unit ("64k", "1 MiB", "2g"); units are powers of 1024."""
    if isinstance(value, int):
        size = value
    else:
        match = _QUANTITY.fullmatch(value)
        unit = match[2].lower() if match else ""
        if unit in ("kb", "mb", "gb"):
            raise ValueError(
                f'"{unit}" is ambiguous (1000 or 1024); write {unit[0].upper()}iB (powers of 1024)'
            )
        scale = _BYTES.get(unit)
        if match is None or scale is None:
            raise ValueError('expected a size such as 65536, "64k" or "1 MiB"')
        exact = Decimal(match[1]) * scale
        size = int(exact)
        if size != exact:
            raise ValueError("expected a whole number of bytes")
    if size < 0:
        raise ValueError("expected a size of 0 or more")
    return size


def format_size(size: int) -> str:
    """Format bytes in the largest whole unit; `parse_size` is the exact inverse."""
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size and size % scale == 0:
            return f"{size // scale} {unit}"
    return str(size)


def parse_start(value: str | date) -> str:
    """Parse the start of a view: "earliest", "now" or an ISO 8601 time, which is returned in UTC.

    A time without an offset is UTC; a day is its midnight. Equal times give equal strings.
    """
    if isinstance(value, str):
        if value in ("earliest", "now"):
            return value
        try:
            parsed = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                'expected "earliest", "now" or an ISO 8601 time such as "2026-01-31T08:00:00Z"'
            ) from None
    elif isinstance(value, datetime):
        parsed = value
    else:
        parsed = datetime.combine(value, time())
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    try:
        return parsed.astimezone(UTC).isoformat()
    except OverflowError:
        raise ValueError("expected a time between the years 1 and 9999") from None
