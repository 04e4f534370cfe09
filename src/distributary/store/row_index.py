"""Entries of a build's row index: one string for a field, a value and a row key, in one sorted set.

All rows with one value of a field are adjacent, within ``value_range``. A value that is long, or contains the
separator, is indexed by its hash, so the caller must check the rows it finds.
"""

from __future__ import annotations

import hashlib

_SEPARATOR = "\0"
_LONG = 100


def entry(field: str, value: str, key: str) -> str:
    """Return the entry of a row whose field has a value (in canonical form)."""
    return _prefix(field, value) + key


def key_of(found: str) -> str:
    """Return the row key of an entry."""
    return found.split(_SEPARATOR, 2)[2]


def value_range(field: str, value: str) -> tuple[str, str]:
    """Return two strings: the entries of a value are at or after the first and before the second."""
    prefix = _prefix(field, value)
    return prefix, prefix[:-1] + chr(ord(_SEPARATOR) + 1)


def _prefix(field: str, value: str) -> str:
    if len(value) > _LONG or _SEPARATOR in value:
        value = "#" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{field}{_SEPARATOR}{value}{_SEPARATOR}"
