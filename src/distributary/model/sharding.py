"""Which of several store servers stores a view. Pure, so that every process gets the same result.

Rendezvous hashing: each server gets a number for the view, and the highest one stores it. The order of the
list does not matter, and a server that is added or removed moves only the views that it gets or had.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import parse_qs, unquote, urlsplit


def identity(address: str) -> str:
    """Identify the database of a URL, independent of user and TLS."""
    parts = urlsplit(address)
    parameter = parse_qs(parts.query).get("db", [""])[-1]
    if parts.scheme == "unix":
        return f"{unquote(parts.path)} {parameter or '0'}"
    database = parameter or unquote(parts.path).strip("/") or "0"
    return f"{(parts.hostname or 'localhost').lower()}:{parts.port or 6379} {database}"


def shard_of(view: str, addresses: Sequence[str]) -> str:
    """Return the URL of the server that stores a view."""
    if len(addresses) == 1:
        return addresses[0]
    return max(addresses, key=lambda address: _rank(view, identity(address)))


def _rank(view: str, server: str) -> tuple[bytes, str]:
    return blake2b(f"{server}\n{view}".encode(), digest_size=8).digest(), server
