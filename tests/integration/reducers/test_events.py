"""An event feed goes to every reducer and into every row, exactly once, whichever process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.stack import Feeding

import distributary
from distributary.kafka.topics import ensure_topic

RULES: dict[str, Any] = {
    "reduce": "tests.support.fold_functions:add_action",
    "reduce_events": "tests.support.fold_functions:add_event",
}


def row(actions: int, total: int, events: int, bonus: int) -> dict[str, int]:
    return {"actions": actions, "sum": total, "events": events, "total": bonus}


async def test_an_event_goes_into_every_row_of_every_partition(feeding: Feeding) -> None:
    view = await feeding.view(feed={"partitions": 2}, events={}, **RULES)
    await feeding.live(view, engine="realtime")
    for partition, key in ((0, "a"), (1, "b"), (1, "c")):
        feeding.produce([(key, {"n": 1})], partition=partition)
    await feeding.rows_become(view, dict.fromkeys("abc", row(1, 1, 0, 0)))
    events, control = feeding.events_topic, feeding.stack.addresses["control"]
    async with distributary.subscribe(view, where="total > 5", control=control) as changes:
        feeding.stack.produce(events, [(None, {"n": 2}), (None, {"n": 5})])
        await feeding.rows_become(view, dict.fromkeys("abc", row(1, 1, 2, 7)))
        async with asyncio.timeout(20 * LIMIT):
            while set(changes.rows) != set("abc"):
                await anext(changes)
        assert changes.rows["b"] == row(1, 1, 2, 7)
        feeding.stack.produce(
            events, [(None, {"remove": "b"}), (None, b"no json"), (None, {"raise": "c", "n": 1})]
        )
        feeding.produce([("c", {"n": 10})], partition=1)
        await feeding.rows_become(view, {"a": row(1, 1, 4, 8), "c": row(2, 11, 3, 7)})
    status = await feeding.until(view, lambda status: status["events_lag"] == 0)
    assert status["dead_letters"] == 3, "the unreadable one in both partitions, and one row of another"
    letters = await asyncio.to_thread(feeding.stack.read, f"{events}.dead-letters", 3)
    found = {(letter.key(), dict(letter.headers() or [])["distributary-reason"]) for letter in letters}
    assert (f"{events}/0/4".encode(), b"row 'c': ValueError: as asked") in found
    assert {key for key, _ in found} == {f"{events}/0/3".encode(), f"{events}/0/4".encode()}


async def test_a_rebuilt_view_takes_both_feeds_in_the_order_of_their_times(feeding: Feeding) -> None:
    """Events between two actions are folded between them again, and those after all come last."""
    ensure_topic(feeding.stack.admin(), feeding.topic, 1)
    ensure_topic(feeding.stack.admin(), feeding.events_topic, 1)
    at = int(time.time() * 1000) - 60_000
    for offset, key in ((0, "a"), (20, "b"), (40, "a")):
        feeding.produce([(key, {"n": offset + 1})], timestamp=at + offset)
    for offset in (10, 30, 50):
        feeding.stack.produce(feeding.events_topic, [(None, {"n": offset})], timestamp=at + offset)
    view = await feeding.view(feed={"partitions": 1}, events={}, **RULES)
    await feeding.rows_become(view, {"a": row(2, 42, 3, 90), "b": row(1, 21, 2, 80)})


async def test_micro_batches_fold_events_with_the_next_action(feeding: Feeding) -> None:
    view = await feeding.view(feed={"partitions": 2}, events={}, engine="microbatch", **RULES)
    for n, events in ((1, 0), (2, 1)):
        for partition, key in ((0, "a"), (1, "b")):
            feeding.produce([(key, {"n": 1})], partition=partition)
        await feeding.rows_become(view, dict.fromkeys("ab", row(n, n, events, events * 5)))
        feeding.stack.produce(feeding.events_topic, [(None, {"n": 5})])


async def test_event_feed_with_several_partitions_stops_the_view(feeding: Feeding) -> None:
    ensure_topic(feeding.stack.admin(), feeding.events_topic, 2)
    view = await feeding.view(wait=False, events={}, **RULES)
    status = await feeding.until(view, lambda status: status["status"] == "stopped")
    assert f"the topic {feeding.events_topic} of its event feed has 2 partitions" in status["reason"]


@pytest.mark.slow
@pytest.mark.timeout(240 * LIMIT)
async def test_both_feeds_stay_exact_when_a_worker_and_the_driver_are_killed(feeding: Feeding) -> None:
    stack, keys = feeding.stack, [f"k{i}" for i in range(40)]
    view = await feeding.view(feed={"partitions": 2}, events={}, **RULES)
    sent = row(1, 0, 0, 0)
    feeding.produce([(key, {"n": 0}) for key in keys])
    await feeding.rows_become(view, dict.fromkeys(keys, sent))

    async def goes_on() -> None:
        """Send to both feeds until what is sent from now on is folded into every row."""
        goal, deadline = sent["events"] + 6, time.monotonic() + 100 * LIMIT
        while min(one["events"] for one in (await feeding.rows(view)).values()) < goal:
            n = sent["events"] % 7 + 1
            feeding.produce([(key, {"n": n}) for key in keys])
            stack.produce(feeding.events_topic, [(None, {"n": n}), (None, {"n": n})])
            for name, more in (("actions", 1), ("sum", n), ("events", 2), ("total", 2 * n)):
                sent[name] += more
            assert time.monotonic() < deadline, sent
            await asyncio.sleep(0.05)

    await goes_on()
    os.kill(stack.worker(view), signal.SIGKILL)
    await goes_on()
    await asyncio.to_thread(stack.kill, "reducers")
    await goes_on()
    deadline = time.monotonic() + 60 * LIMIT
    while (found := await feeding.rows(view)) != dict.fromkeys(keys, sent):
        twice = [one for one in found.values() if any(one[name] > sent[name] for name in sent)]
        assert not twice, (twice, sent)
        assert time.monotonic() < deadline, (found, sent)
        await asyncio.sleep(0.05)
