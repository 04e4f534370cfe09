"""What publishers say of subscriptions that have a pace of their own."""

from __future__ import annotations

from typing import Any

from distributary.control.stack_overview import read_overview
from distributary.store.contract import ReaderStore


async def pace_of(store: ReaderStore, subscription: str) -> dict[str, Any] | None:
    """Find how many changes one was not sent one by one; None when it has no pace, or none is known yet.

    Publishers tell it every few seconds, so the counts are that old.
    """
    for said in (await read_overview(store, [])).of_part("publisher"):
        paces = said.stats.get("paces")
        found = paces.get(subscription) if isinstance(paces, dict) else None
        if isinstance(found, dict):
            return found
    return None
