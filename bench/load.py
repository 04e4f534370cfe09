"""The load of the scenarios that run a whole stack: a producer and a subscriber, each in its own process."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench import child, stacks
from bench.child import BenchError, Child


async def producer(
    exits: AsyncExitStack, folder: Path, bootstrap: str, linger_ms: int, **records: Any
) -> Child:
    """Start a producer of such records (`bench.records.maker`)."""
    asked = {"bootstrap": bootstrap, "topic": stacks.TOPIC, "linger_ms": linger_ms, "records": records}
    return await _start(exits, folder, "produce", asked)


async def subscriber(
    exits: AsyncExitStack, folder: Path, url: str, channels: list[str], *, stamps: bool, token: str = ""
) -> Child:
    """Start a subscriber and wait until it is subscribed to all channels."""
    asked = {"url": url, "channels": channels, "stamps": stamps, "token": token}
    return await _start(exits, folder, "listen", asked)


async def phase(producer: Child, **asked: Any) -> dict[str, Any]:
    """Produce what is asked (see `bench.produce`); all must be acknowledged."""
    done = await producer.ask(json.dumps(asked).encode(), asked.get("seconds", 300) + 90)
    if done["failed"]:
        raise BenchError(f"{done['failed']:,} of {done['sent']:,} records were not acknowledged")
    return done


async def arrived(subscriber: Child, count: int, limit: float = 30.0) -> None:
    """Wait until so many changes have come; more than that, or an end of a subscription, is an error."""
    deadline = time.monotonic() + limit
    while (said := await subscriber.ask(b"count", 10))["publications"] < count and not said["trouble"]:
        if time.monotonic() > deadline:
            raise BenchError(f"{said['publications']:,} of {count:,} changes came within {limit:g} s")
        await asyncio.sleep(0.1)
    if said["trouble"] or said["publications"] > count:
        raise BenchError(f"{said['publications']:,} changes came of {count:,} records: {said['trouble']}")


async def _start(exits: AsyncExitStack, folder: Path, name: str, asked: dict[str, Any]) -> Child:
    argv = child.module(f"bench.{name}", json.dumps(asked))
    started = await exits.enter_async_context(child.run(name, argv, folder))
    said = await started.line(60)
    if not said["ready"]:
        raise BenchError(f"bench.{name} did not get ready: {said}")
    return started
