"""Which engine runs a view, and that its rows are the same on each."""

from __future__ import annotations

import asyncio

from tests.support.clock import LIMIT
from tests.support.stack import Feeding

from distributary.kafka.topics import ensure_topic

BACKLOG = 60_000


async def test_micro_batches_can_be_forced(feeding: Feeding) -> None:
    view = await feeding.view(engine="microbatch")
    feeding.produce([("a", {"n": 1}), ("b", {"n": 2})])
    await feeding.rows_become(view, {"a": {"n": 1}, "b": {"n": 2}})
    await feeding.live(view, "microbatch")
    feeding.produce([("a", {"n": 3})])
    await feeding.rows_become(view, {"a": {"n": 3}, "b": {"n": 2}})


async def test_a_large_backlog_is_drained_in_batches_and_then_followed_live(feeding: Feeding) -> None:
    """More records than ``catchup_lag`` in more partitions than there are cores."""
    ensure_topic(feeding.stack.admin(), feeding.topic, 8)
    feeding.produce((f"user{i % 1000}", {"stake": i % 7}) for i in range(BACKLOG))
    view = await feeding.view(
        wait=False,
        key="record_key",
        reduce="aggregate",
        aggregates={"total": "sum(stake)", "bets": "count()"},
    )
    engines: list[str] = []
    status: dict[str, object] = {}
    async with asyncio.timeout(90 * LIMIT):
        while status.get("status") != "live" or status.get("engine") != "realtime":
            status = await feeding.describe(view)
            assert status.get("status") != "stopped", status
            if (engine := str(status.get("engine") or "")) and engine not in engines:
                engines.append(engine)
            await asyncio.sleep(0.05)
    assert engines == ["catch-up", "realtime"]
    feeding.produce((f"user{i % 1000}", {"stake": 1}) for i in range(1000))
    await feeding.until(view, lambda status: status["records"] == BACKLOG + 1000)
    rows = await feeding.rows(view)
    assert len(rows) == 1000
    assert sum(row["total"] for row in rows.values()) == sum(i % 7 for i in range(BACKLOG)) + 1000
    assert {row["bets"] for row in rows.values()} == {BACKLOG // 1000 + 1}
