"""Two thousand subscriptions come and go, all different: nothing of them is left, anywhere."""

from __future__ import annotations

from functools import partial

import pytest
from bench import held
from bench.ask import connect
from bench.held import Held
from tests.support.clock import LIMIT
from tests.support.stack import Feeding
from tests.support.wait import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 * LIMIT)]

CONNECTIONS, CYCLES = 20, 50
ROOM = 24 * 2**20
"""Bytes that a second thousand may add to the first; loose, because allocators do not return all memory."""

ROWS = {f"k{n}": {"id": f"k{n}", "n": n} for n in range(50)}


async def look_at(feeding: Feeding, view: str) -> Held:
    """What is in use now. A reducer reports it once it gets a record, and every batch has new reducers."""
    feeding.produce(ROWS.items())
    return await held.read(feeding.stack.config.store.url, view)


async def rested(feeding: Feeding, view: str) -> Held:
    """What is in use without subscribers."""
    found = await eventually(partial(look_at, feeding, view), lambda found: len(found.reducers) == 2)
    assert not any(sum(message) for message in found.reducers.values())
    return found


async def test_two_thousand_cycles_leave_nothing(feeding: Feeding) -> None:
    stack = feeding.stack
    view = await feeding.view(key="id", feed={"partitions": 2, "partitioned_by": "id"})

    look = partial(look_at, feeding, view)

    def resident() -> int:
        pids = [part.pid for part in stack.stack.state.components if part.pid is not None]
        return held.resident(pids, jvm=False)

    before = await rested(feeding, view)
    after: list[int] = []
    swarm = await connect(stack.addresses["websocket"], view, CONNECTIONS)
    try:
        for number in range(2):
            await swarm.cycle(number * 1_000_000, CYCLES)
            await eventually(look, lambda found: found == before)
            after.append(resident())
    finally:
        swarm.close()
    assert after[1] - after[0] < ROOM, after


async def test_open_subscriptions_are_counted_everywhere(feeding: Feeding) -> None:
    stack = feeding.stack
    view = await feeding.view(key="id", feed={"partitions": 2, "partitioned_by": "id"})

    look = partial(look_at, feeding, view)

    before = await rested(feeding, view)
    one, other = [await connect(stack.addresses["websocket"], view, 3) for _ in range(2)]
    await one.hold(0, 8)
    await other.shared(0, 8)
    await eventually(look, lambda found: {message[0] for message in found.reducers.values()} == {24})
    found = await eventually(look, lambda found: found.publishers[1] == 48)
    assert found.stored[f"d:{{{view}}}:s:subscriptions"] == 48
    for swarm in (one, other):
        await swarm.leave()
        swarm.close()
    await eventually(look, lambda found: found == before)
