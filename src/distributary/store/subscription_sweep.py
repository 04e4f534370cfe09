"""The removal of lapsed subscriptions, as fast as they lapse."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from distributary.store.contract import SWEEP_BATCH

SWEEP_SECONDS = 5.0
"""Interval between sweeps, and maximum duration of one while there are more subscriptions to remove."""

Ended = Callable[[str, list[str]], Awaitable[object]]
"""Called with the subscriptions of a view that were removed."""


class Sweepable(Protocol):
    """The part of a store that is used here."""

    async def sweep(self, view: str) -> list[str]:
        """As in ``ReaderStore``."""


async def sweep(store: Sweepable, views: Iterable[str], seconds: float, ended: Ended) -> int:
    """Remove lapsed subscriptions of all views and call ``ended`` with them; return how many there were.

    Views that returned a full batch are swept again, for about ``seconds``.
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
