"""What happens because time passes and no record comes: rows expire, sources fall silent."""

from __future__ import annotations

import asyncio
import time

from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary
from distributary.model.build import Build
from distributary.model.position import Mark
from distributary.store.store_types import BuildInfo
from distributary.subscriber.async_subscriber import Changes


async def _next(changes: Changes, *ops: str) -> str:
    """Wait for one of these; return which it was, with the key."""

    async def follow() -> str:
        async for change in changes:
            if change.op in ops:
                return f"{change.op} {change.key or ''}".strip()
        raise AssertionError("the subscription ended")

    return await asyncio.wait_for(follow(), 30 * LIMIT)


async def test_rows_expire_without_a_new_record(feeding: Feeding) -> None:
    view = await feeding.view(ttl=3)
    async with distributary.subscribe(view, control=feeding.stack.addresses["control"]) as changes:
        for partition in (0, 1):
            feeding.produce([(f"p{partition}", {"n": 1})], partition=partition)
        assert {await _next(changes, "add"), await _next(changes, "add")} == {"add p0", "add p1"}
        assert {await _next(changes, "remove"), await _next(changes, "remove")} == {"remove p0", "remove p1"}
        assert changes.rows == {}
    assert await feeding.rows(view) == {}


async def test_rows_expire_on_partitions_that_are_idle_since_the_start(feeding: Feeding) -> None:
    """The query restarts and gets no record at all: its reducers must look at the clock all the same."""
    view = await feeding.view(ttl=12, engine="microbatch")
    for partition in (0, 1):
        feeding.produce([(f"p{partition}", {"n": 1})], partition=partition)
    await feeding.rows_become(view, {"p0": {"n": 1}, "p1": {"n": 1}})
    store = feeding.stack.writer()
    info = store.views()[view]

    def state() -> BuildInfo:
        found = store.build(Build(view, info.live))
        assert found is not None
        return found

    async with asyncio.timeout(10 * LIMIT):  # until the batch's end is stored, so that nothing is read again
        while state().marks != {0: Mark(1), 1: Mark(1)}:
            await asyncio.sleep(0.05)
    build = state()
    await feeding.view(name=view, ttl=12, wait=False)
    await feeding.rows_become(view, {})
    after = state()
    assert (after.generation, after.records) == (build.generation + 1, 2)
    store.close()


async def test_time_passes_in_micro_batches_without_records(feeding: Feeding) -> None:
    view = await feeding.view(ttl=6, engine="microbatch", feed={"partitions": 2})
    control = feeding.stack.addresses["control"]
    async with distributary.subscribe(view, where="starts > now()", control=control) as changes:
        starts = int(time.time() * 1000) + 3_000
        for partition in (0, 1):
            feeding.produce([(f"p{partition}", {"starts": starts})], partition=partition)
        assert {await _next(changes, "add"), await _next(changes, "add")} == {"add p0", "add p1"}
        assert {await _next(changes, "remove"), await _next(changes, "remove")} == {"remove p0", "remove p1"}
        assert int(time.time() * 1000) >= starts
        assert set(await feeding.rows(view)) == {"p0", "p1"}, "they left the query, not the view"
        await feeding.rows_become(view, {})
        feeding.produce([("p0", {"starts": starts + 3_600_000})], partition=0)
        assert await _next(changes, "add") == "add p0"
    assert (await feeding.live(view))["engine"] == "microbatch"


async def test_rows_enter_and_leave_timed_queries_as_time_passes(feeding: Feeding) -> None:
    """No record comes: only the clock moves, on both partitions, and later subscribers see the same."""
    view = await feeding.view(feed={"partitions": 2})
    await feeding.live(view, engine="realtime")
    control = feeding.stack.addresses["control"]
    # Both subscribers must be there before the first row is soon to start.
    soonest = int(time.time() * 1000) + 3_000 + int(3_000 * LIMIT)
    ends = {"p0": soonest, "p1": soonest + 500, "late": soonest + 3_600_000}
    for partition, key in ((0, "p0"), (1, "p1"), (1, "late")):
        feeding.produce([(key, {"starts": ends[key]})], partition=partition)
    await feeding.rows_become(view, {key: {"starts": at} for key, at in ends.items()})
    open_to_bets = distributary.subscribe(view, where="starts > now()", control=control)
    soon = distributary.subscribe(view, where="starts < now() + 3s", control=control)
    async with open_to_bets as bets, soon as starting:
        assert set(bets.rows) == set(ends)
        assert starting.rows == {}
        for key in ("p0", "p1"):
            assert await _next(starting, "add") == f"add {key}"
            assert -50 < time.time() * 1000 - (ends[key] - 3_000) < 1_000 * LIMIT
        for key in ("p0", "p1"):
            assert await _next(bets, "remove") == f"remove {key}"
            assert -50 < time.time() * 1000 - ends[key] < 1_000 * LIMIT
        assert set(bets.rows) == {"late"}
    async with distributary.subscribe(view, where="starts > now()", control=control) as again:
        assert set(again.rows) == {"late"}


async def test_view_is_stale_while_its_source_is_silent(feeding: Feeding) -> None:
    control = feeding.stack.addresses["control"]
    view = await feeding.view(stale_after=2)
    async with distributary.subscribe(view, control=control) as changes:
        feeding.produce([("a", {"n": 1})])
        assert await _next(changes, "add") == "add a"
        assert await _next(changes, "stale") == "stale"
        assert changes.stale
        async with distributary.subscribe(view, control=control) as late:
            assert late.stale, "a snapshot says so too"
        assert (await feeding.describe(view))["stale"] is True
        feeding.produce([("a", {"n": 2})])
        status = {await _next(changes, "change", "fresh"), await _next(changes, "change", "fresh")}
        assert status == {"change a", "fresh"}
        assert not changes.stale
