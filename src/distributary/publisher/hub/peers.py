"""The publisher processes that share a port, as one.

The system picks one of them for every connection, so whoever is asked answers for all. What each said at its
last beat is what is told, also by itself: two answers about one process then never go back in time.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from distributary.store.contract import ReaderStore

SILENT_MS = 15_000


def place_of(port: int) -> str:
    """Name what the processes share: a machine and a port."""
    return f"{socket.gethostname()}:{port}"


async def heard(store: ReaderStore, place: str) -> dict[str, Mapping[str, Any]]:
    """Read what the processes of a place last said, by their id; those that fell silent are left out."""
    found: dict[str, Mapping[str, Any]] = {}
    for beat in await store.beats():
        if beat.part == "publisher" and beat.age_ms < SILENT_MS:
            try:
                said = json.loads(beat.stats)
            except ValueError:
                continue
            if isinstance(said, dict) and said.get("place") == place:
                found[beat.id] = said
    return found
