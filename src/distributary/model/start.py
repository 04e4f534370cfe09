"""From where on a subscriber wants what is newer: a position, or a time."""

from __future__ import annotations

import math
from typing import TypeAlias

from distributary.errors import BadQuery
from distributary.model.filter.times import read_moment
from distributary.model.position import Position

Start: TypeAlias = Position | int
"""A position, or a time in ms since 1970."""

_HINT = "give a position (EPOCH:NUMBER), a time (ISO 8601, UTC unless it says otherwise) or milliseconds"
_LATEST = 1 << 53


def read_start(value: str | int) -> Start:
    """Read ``EPOCH:NUMBER``, an ISO 8601 time, or milliseconds since 1970. Raises BadQuery."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit() and len(value) < 17):
        moment = read_moment(value)
        if moment is not None:
            return math.floor(moment)
        try:
            return Position.parse(value)
        except ValueError:
            raise BadQuery(f"from {value[:80]!r} is neither a position nor a time", hint=_HINT) from None
    if isinstance(value, bool) or not 0 <= int(value) < _LATEST:
        raise BadQuery(f"from {str(value)[:80]} is not a time", hint=_HINT)
    return int(value)
