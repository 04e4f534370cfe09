"""What many subscriptions leave behind, and what one takes in memory while it is there.

First some are held: what the parts grow by is what a query and a subscription take. Then connections
subscribe and leave, all at once, two rounds of it. After each all maps and the store must be what they were
before, and the second round must not need more memory than the first.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench import child, held, load, stacks
from bench.child import BenchError, Child
from bench.figures import Say
from bench.held import Held
from bench.spec import Cycles
from distributary.stack.embedded_stack import Stack

BACK = 60.0
"""Seconds within which everything must be back: a reducer says what it holds once a second."""


async def measure(spec: Cycles, folder: Path, say: Say) -> dict[str, Any]:
    """Hold some, then cycle; whatever is left behind is an error."""
    config = stacks.configure(folder, spec.partitions, spark='batch_duration = "1 hour"')
    async with AsyncExitStack() as exits:
        say("starting a stack")
        stack = await exits.enter_async_context(stacks.running(config, say))
        await stacks.wait_live(stack)
        records = {"kind": "stamped", "keys": spec.rows}
        producer = await load.producer(exits, folder, stack.addresses["kafka"], 5, **records)
        await load.phase(producer, count=spec.rows)
        progress = stacks.Progress(stack.config)
        exits.callback(progress.close)
        await progress.wait_folded(spec.rows, 60)
        swarm = await _swarm(exits, folder, stack, "cycles", spec.connections)
        others = await _swarm(exits, folder, stack, "others", spec.connections)
        numbers = iter(range(0, 1 << 60, 10_000_000))

        async def all_back(before: Held) -> None:
            await _until(lambda: _held(stack), lambda now: now == before, "not everything went")

        say("warming up")
        await _tell(swarm, "cycle", next(numbers), spec.warm_up)
        before = await _settled(stack)
        weights = await _weigh(spec, stack, swarm, others, next(numbers), say)
        await all_back(before)
        count, seconds, grown = spec.connections * spec.cycles, [], []
        for round_ in range(spec.rounds):
            took = await _tell(swarm, "cycle", next(numbers), spec.cycles)
            await all_back(before)
            grown.append(_memory(stack))
            seconds.append(took)
            mib = grown[-1][0] / 2**20
            say(f"round {round_ + 1}: {count:,} cycles in {took:.1f} s, {mib:,.0f} MiB afterwards")
    return figures(count, seconds, grown, weights)


async def _swarm(exits: AsyncExitStack, folder: Path, stack: Stack, name: str, connections: int) -> Child:
    asked = {"url": stack.addresses["websocket"], "view": stacks.VIEW, "connections": connections}
    argv = child.module("bench.ask", json.dumps(asked))
    started = await exits.enter_async_context(child.run(f"ask-{name}", argv, folder))
    await started.line(60)
    return started


async def _tell(swarm: Child, word: str, *numbers: int) -> float:
    """Have something done; returns the seconds that it took."""
    done = await swarm.ask(" ".join([word, *map(str, numbers)]).encode(), 3600)
    if done["error"]:
        raise BenchError(f"{word}: {done['error']}")
    return float(done["seconds"])


async def _held(stack: Stack) -> Held:
    return await held.read(stack.config.store.url, stacks.VIEW)


async def _settled(stack: Stack) -> Held:
    """What is held when nobody asks for anything."""
    return await _until(
        lambda: _held(stack),
        lambda now: now.publishers == (0, 0) and not any(sum(said) for said in now.reducers.values()),
        "the stack does not come to rest",
    )


async def _until(
    ask: Callable[[], Awaitable[Held]], ready: Callable[[Held], bool], what: str, limit: float = BACK
) -> Held:
    deadline = time.monotonic() + limit
    while not ready(now := await ask()):
        if time.monotonic() > deadline:
            raise BenchError(f"{what} within {limit:g} s: {now}")
        await asyncio.sleep(0.2)
    return now


async def _weigh(
    spec: Cycles, stack: Stack, swarm: Child, others: Child, first: int, say: Say
) -> dict[str, float]:
    """Hold queries, then as many subscriptions to queries that are there; what grew is their weight."""
    count = spec.connections * spec.held
    empty = await _weights(stack)
    await _tell(swarm, "hold", first, spec.held)
    await _until(lambda: _held(stack), lambda now: known(now, count), "the reducers do not know all queries")
    queries = await _weights(stack)
    # All of these ask what the first connection of those holds already.
    await _tell(others, "shared", first, spec.held)
    await _until(lambda: _held(stack), lambda now: now.publishers[1] == 2 * count, "not all are subscribed")
    subscriptions = await _weights(stack)
    say(f"held {count:,} queries, and {count:,} more subscriptions")
    for one in (swarm, others):
        await _tell(one, "leave")
    return {
        **{f"bytes_per_query_{part}": (queries[part] - empty[part]) / count for part in empty},
        "bytes_per_subscription": (subscriptions["publisher"] - queries["publisher"]) / count,
        "bytes_per_subscription_store": (subscriptions["store"] - queries["store"]) / count,
    }


def known(now: Held, count: int) -> bool:
    """Whether every reducer has so many queries."""
    return len(now.reducers) > 0 and all(said[0] == count for said in now.reducers.values())


async def _weights(stack: Stack) -> dict[str, int]:
    """Bytes of the publisher, of one reducer, and of the store."""
    pids = {part.name: part.pid for part in stack.state.components if part.pid is not None}
    reducers = (await _held(stack)).reducers
    return {
        "publisher": held.resident([pids["publisher"]], jvm=False),
        "reducer": held.resident([pids["reducers"]], jvm=False) // max(1, len(reducers)),
        "store": await held.store_bytes(stack.config.store.url),
    }


def _memory(stack: Stack) -> tuple[int, int]:
    """Resident bytes of the stack: the JVMs', which keep what they ever took, apart."""
    pids = [part.pid for part in stack.state.components if part.pid is not None]
    return held.resident(pids, jvm=False), held.resident(pids, jvm=True)


def figures(
    count: int, seconds: list[float], grown: list[tuple[int, int]], weights: dict[str, float]
) -> dict[str, Any]:
    """``grown`` is the memory after each round: of all but the JVMs, and of the JVMs."""
    return {
        "cycles": count,
        "cycles_s": round(count / min(seconds), 1),
        "cycles_rss_growth": round(grown[-1][0] / grown[0][0] - 1, 4),
        "cycles_rss_growth_jvm": round(grown[-1][1] / grown[0][1] - 1, 4),
        "cycles_rss_mib": round(grown[-1][0] / 2**20, 1),
        **{name: round(weight) for name, weight in weights.items()},
    }
