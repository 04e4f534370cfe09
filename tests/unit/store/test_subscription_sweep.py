"""Sweeping keeps up with lapsed subscriptions, and ends."""

from __future__ import annotations

from distributary.store.contract import SWEEP_BATCH
from distributary.store.subscription_sweep import sweep


class Lapsed:
    """So many lapsed subscriptions of each view."""

    def __init__(self, **views: int) -> None:
        self.left = views
        self.swept: list[str] = []

    async def sweep(self, view: str) -> list[str]:
        batch = min(SWEEP_BATCH, self.left[view])
        self.left[view] -= batch
        self.swept.append(view)
        return [f"{view}{number}" for number in range(batch)]


async def ignore(view: str, ids: list[str]) -> None:
    """Hear of what was swept."""


async def test_sweep_alternates_between_views_until_nothing_is_due() -> None:
    store = Lapsed(a=SWEEP_BATCH * 2 + 1, b=1, c=SWEEP_BATCH)
    counts: list[int] = []

    async def ended(view: str, ids: list[str]) -> None:
        counts.append(len(ids))

    count = SWEEP_BATCH * 3 + 2
    assert await sweep(store, ["a", "b", "c"], 60, ended) == count == sum(counts)
    assert store.swept == ["a", "b", "c", "a", "c", "a"]
    assert 0 not in counts, "no call without subscriptions"


async def test_sweep_visits_every_view_before_its_time_is_over() -> None:
    store = Lapsed(a=SWEEP_BATCH * 9, b=SWEEP_BATCH * 9)
    assert await sweep(store, ["a", "b"], 0, ignore) == SWEEP_BATCH * 2
    assert store.swept == ["a", "b"]
