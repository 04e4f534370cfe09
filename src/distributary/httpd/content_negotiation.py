"""The choice of a format by the Accept header (RFC 9110, 12.5.1). Pure."""

from __future__ import annotations

from collections.abc import Sequence


def choose(header: str, offered: Sequence[str]) -> str | None:
    """Return the best media type; among equals the one offered first. None: none is acceptable.

    No header accepts everything. Of the ranges that match a type, the most specific one's weight applies.
    """
    ranges = [one for part in header.split(",") if (one := _range(part)) is not None]
    if not ranges:
        return offered[0]
    best: str | None = None
    weight = 0.0
    for media in offered:
        found = max(((specific, q) for kind, specific, q in ranges if _covers(kind, media)), default=(0, 0.0))
        if found[1] > weight:
            best, weight = media, found[1]
    return best


def _range(part: str) -> tuple[str, int, float] | None:
    """Parse a media range: its type, how specific it is, and its weight. None if it is invalid."""
    kind, *parameters = (word.strip().lower() for word in part.split(";"))
    main, slash, sub = kind.partition("/")
    if not slash or not main or not sub:
        return None
    q = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                q = float(value)
            except ValueError:
                return None
            if not 0 <= q <= 1:
                return None
            break
    return kind, 2 - (sub == "*") - (main == "*"), q


def _covers(kind: str, media: str) -> bool:
    if kind == "*/*":
        return True
    return kind[:-1] == media[: len(kind) - 1] if kind.endswith("/*") else kind == media
