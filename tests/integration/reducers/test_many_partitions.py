"""Six partitions, most of them quiet: time and events reach every one, across restarts (R11).

Spark numbers its tasks otherwise than Kafka its partitions as soon as there are five of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary
from distributary.model.build import Build
from distributary.store.redis_writer import RedisWriter
from distributary.store.store_types import BuildInfo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 * LIMIT)]

SIX = range(6)
RULES: dict[str, Any] = {
    "reduce": "tests.support.fold_functions:add_action",
    "reduce_events": "tests.support.fold_functions:add_event",
}


@pytest.fixture
def writer(feeding: Feeding) -> Iterator[RedisWriter]:
    one = feeding.stack.writer()
    yield one
    one.close()


def build_of(writer: RedisWriter, view: str) -> BuildInfo:
    found = writer.build(Build(view, writer.views()[view].live))
    assert found is not None
    return found


async def restart(feeding: Feeding, writer: RedisWriter, view: str) -> int:
    """Kill a worker, so that the query starts again with no record to read; return its generation."""
    before, killed = build_of(writer, view).generation, 0
    async with asyncio.timeout(60 * LIMIT):
        while (after := build_of(writer, view).generation) == before:
            # Between two batches a worker has no task, and its death has no effect.
            if (pid := feeding.stack.worker(view)) != killed:
                killed = pid
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.05)
    await feeding.live(view, engine="realtime")
    return after


async def test_rows_expire_on_idle_partitions_after_a_restart(feeding: Feeding, writer: RedisWriter) -> None:
    view = await feeding.view(ttl=int(14 * LIMIT), feed={"partitions": 6})
    await feeding.live(view, engine="realtime")
    for partition in SIX:
        feeding.produce([(f"p{partition}", {"n": 1})], partition=partition)
    await feeding.rows_become(view, {f"p{partition}": {"n": 1} for partition in SIX})
    generation = await restart(feeding, writer, view)
    assert len(await feeding.rows(view)) == 6
    await feeding.rows_become(view, {})
    # One partition has records again, which must not take another one's clock away.
    for n in range(3):
        feeding.produce([("p4", {"n": n})], partition=4)
        await feeding.rows_become(view, {"p4": {"n": n}})
    feeding.produce([("p1", {"n": 1})], partition=1)
    await feeding.rows_become(view, {"p4": {"n": 2}, "p1": {"n": 1}})
    await feeding.rows_become(view, {})
    assert build_of(writer, view).generation == generation, "the query was restarted on the way"


async def test_rows_leave_queries_with_now_on_idle_partitions(feeding: Feeding, writer: RedisWriter) -> None:
    view = await feeding.view(feed={"partitions": 6})
    await feeding.live(view, engine="realtime")
    starts = int(time.time() * 1000 + 15_000 * LIMIT)
    for partition in SIX:
        feeding.produce([(f"p{partition}", {"starts": starts})], partition=partition)
    await feeding.rows_become(view, {f"p{partition}": {"starts": starts} for partition in SIX})
    generation = await restart(feeding, writer, view)
    control = feeding.stack.addresses["control"]
    async with distributary.subscribe(view, where="starts > now()", control=control) as changes:
        assert len(changes.rows) == 6
        async with asyncio.timeout(60 * LIMIT):
            while changes.rows:
                await anext(changes)
        assert int(time.time() * 1000) >= starts
    assert build_of(writer, view).generation == generation, "the query was restarted on the way"


async def test_events_reach_the_rows_of_idle_partitions(feeding: Feeding, writer: RedisWriter) -> None:
    view = await feeding.view(feed={"partitions": 6}, events={}, **RULES)
    await feeding.live(view, engine="realtime")
    for partition in SIX:
        feeding.produce([(f"p{partition}", {"n": 1})], partition=partition)

    def rows(actions: int, events: int) -> dict[str, Any]:
        one = {"actions": 1, "sum": 1, "events": events, "total": events * 5}
        return {f"p{n}": one | ({"actions": actions, "sum": actions} if n == 3 else {}) for n in SIX}

    await feeding.rows_become(view, rows(1, 0))
    generation = await restart(feeding, writer, view)
    for events in (1, 2):
        feeding.stack.produce(feeding.events_topic, [(None, {"n": 5})])
        await feeding.rows_become(view, rows(events, events))
        feeding.produce([("p3", {"n": 1})], partition=3)
        await feeding.rows_become(view, rows(events + 1, events))
    assert build_of(writer, view).generation == generation, "the query was restarted on the way"
