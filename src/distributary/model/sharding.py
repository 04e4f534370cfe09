"""On which of several store servers a view lives. Pure, so that every process comes to the same answer.

Rendezvous hashing: each server draws a number for the view, and the highest has it. The order of the list
means nothing, and a server that comes or goes moves no views but those that it gets or had.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import parse_qs, unquote, urlsplit


def identity(address: str) -> str:
    """Name the database that an address leads to: whoever asks for it, and through TLS or not."""
    parts = urlsplit(address)
    asked = parse_qs(parts.query).get("db", [""])[-1]
    if parts.scheme == "unix":
        return f"{unquote(parts.path)} {asked or '0'}"
    database = asked or unquote(parts.path).strip("/") or "0"
    return f"{(parts.hostname or 'localhost').lower()}:{parts.port or 6379} {database}"


def shard_of(view: str, addresses: Sequence[str]) -> str:
    """Choose the address of the server that a view lives on."""
    if len(addresses) == 1:
        return addresses[0]
    return max(addresses, key=lambda address: _drawn(view, identity(address)))


def _drawn(view: str, server: str) -> tuple[bytes, str]:
    return blake2b(f"{server}\n{view}".encode(), digest_size=8).digest(), server
