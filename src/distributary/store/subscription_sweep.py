"""The end of subscriptions whose time is over, as fast as they lapse."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from distributary.store.contract import SWEEP_BATCH

SWEEP_SECONDS = 5.0
"""How often lapsed subscriptions are looked for, and how long that may take while there are more."""

Ended = Callable[[str, list[str]], Awaitable[object]]
"""Hears which subscriptions of a view have ended."""


class Sweepable(Protocol):
    """What is needed of a store."""

    async def sweep(self, view: str) -> list[str]:
        """As ``ReaderStore`` promises."""


async def sweep(store: Sweepable, views: Iterable[str], seconds: float, ended: Ended) -> int:
    """Remove lapsed subscriptions of all views and tell ``ended``; return how many there were.

    Views of which a whole batch came have another turn, and another, for about so many seconds.
    """
    deadline = time.monotonic() + seconds
    due, count = list(views), 0
    while due:
        more = []
        for view in due:
            ids = await store.sweep(view)
            if ids:
                await ended(view, ids)
            count += len(ids)
            if len(ids) >= SWEEP_BATCH:
                more.append(view)
        due = more if time.monotonic() < deadline else []
    return count
