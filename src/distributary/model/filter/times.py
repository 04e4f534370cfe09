"""Times and durations in filters. A time is an exact number of milliseconds since 1970 in UTC."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from distributary.model.filter.scalars import Number, Scalar

MAX_OFFSET_MS = 3_155_760_000_000
"""A hundred years: a longer one is probably a wrong unit."""

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_DAY_0 = date(1970, 1, 1).toordinal()

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def parse_time(text: str) -> Number | None:
    """Parse ISO 8601: a date, or a date and a time, in UTC unless it has an offset. None: it is invalid."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, off_hour, off_minute = match.groups()
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    offset = int(off_hour or 0), int(off_minute or 0)
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59 or offset[0] > 23 or offset[1] > 59:
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _DAY_0
    except ValueError:
        return None
    shift = (offset[0] * 60 + offset[1]) * (-1 if sign == "-" else 1)
    seconds = ((days * 24 + clock[0]) * 60 + clock[1] - shift) * 60 + clock[2]
    digits = (fraction or "").rstrip("0").ljust(3, "0")
    whole = seconds * 1_000 + int(digits[:3])
    finer = digits[3:]
    return Decimal(f"{whole * 10 ** len(finer) + int(finer)}e-{len(finer)}") if finer else whole


def as_time(value: Scalar) -> Number | None:
    """Convert a field to a time: ISO 8601, or a number of milliseconds. None: it is neither."""
    if isinstance(value, str):
        return parse_time(value)
    return value if isinstance(value, (int, Decimal)) else None


def parse_interval(text: str) -> int | None:
    """Parse ``90s``, ``2 hours`` or ``1 day 30 minutes`` to milliseconds, at most a hundred years.

    None if it is invalid, or not a whole number of milliseconds.
    """
    total = Decimal(0)
    at = 0
    while at < len(text) or not at:
        match = _PART.match(text, at)
        if match is None or len(match[1]) > 15 or (unit := _UNITS.get(match[2].lower())) is None:
            return None
        total += Decimal(match[1]) * unit
        at = match.end()
    return int(total) if total == int(total) and total <= MAX_OFFSET_MS else None
