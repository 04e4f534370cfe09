"""Scenario 1: how long a record takes from ``produce()`` to a subscriber's WebSocket, through all stages.

The value carries the monotonic clock's time from just before ``produce()``; the subscriber, on the same host,
takes it from its clock when the frame arrives.
"""

from __future__ import annotations

from array import array
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench import load, stacks
from bench.child import BenchError, Child
from bench.figures import Say, summary
from bench.spec import Latency

Figures = dict[str, Any]


async def measure(spec: Latency, folder: Path, say: Say) -> Figures:
    """Measure at each rate within one batch, then once over the ends of batches."""
    phases = [(f"e2e_{rate}", rate, spec.seconds) for rate in spec.rates]
    out = await _run(spec, folder / "long", say, phases, batch=0)
    if spec.crossing_seconds:
        rate = spec.rates[0]
        crossing = [(f"e2e_{rate}_batch_end", rate, spec.crossing_seconds)]
        out |= await _run(spec, folder / "crossing", say, crossing, batch=spec.crossing_batch)
        out["batch_end_every_s"] = spec.crossing_batch
    return out


async def _run(
    spec: Latency, folder: Path, say: Say, phases: list[tuple[str, int, float]], batch: float
) -> Figures:
    config = stacks.configure(
        folder, spec.partitions, spark=f'batch_duration = "{batch:g} s"' if batch else ""
    )
    async with AsyncExitStack() as exits:
        say("starting a stack" + (f" with batches of {batch:g} s" if batch else ""))
        stack = await exits.enter_async_context(stacks.running(config, say))
        await stacks.wait_live(stack)
        where = stack.addresses
        subscriber = await load.subscriber(exits, folder, where["websocket"], [stacks.VIEW], stamps=True)
        producer = await load.producer(exits, folder, where["kafka"], 0, kind="stamped", keys=spec.keys)
        say(f"warming up: {spec.rates[0]:,} rec/s for {spec.warm_up:g} s")
        warmed = await load.phase(producer, rate=spec.rates[0], seconds=spec.warm_up)
        sent = warmed["sent"]
        await load.arrived(subscriber, sent)  # the first records wait until Spark has its workers
        measured: list[tuple[str, dict[str, Any]]] = []
        for name, rate, seconds in phases:
            sent += (await load.phase(producer, rate=rate, seconds=spec.settle))["sent"]
            say(f"measuring: {rate:,} rec/s for {seconds:g} s")
            measured.append((name, await load.phase(producer, rate=rate, seconds=seconds)))
            sent += measured[-1][1]["sent"]
        await load.arrived(subscriber, sent)
        pairs = await stamps(subscriber, folder)
    out: Figures = {}
    for name, phase in measured:
        out |= _figures(name, phase, pairs)
    return out


async def stamps(subscriber: Child, folder: Path) -> array[int]:
    """Read the stamps and delays that the subscriber noted."""
    path = folder / "stamps"
    await subscriber.ask(f"save {path}".encode(), 30)
    pairs = array("q")
    pairs.frombytes(path.read_bytes())
    return pairs


def _figures(name: str, phase: dict[str, Any], pairs: array[int]) -> Figures:
    begin, end = phase["begin_ns"], phase["end_ns"]
    both = zip(pairs[::2], pairs[1::2], strict=True)
    chosen = [delay / 1e6 for stamp, delay in both if begin <= stamp <= end]
    if len(chosen) != phase["sent"]:
        raise BenchError(f"{name}: {len(chosen):,} delays of {phase['sent']:,} records")
    return {
        **summary(name, chosen),
        f"{name}_records": len(chosen),
        f"{name}_producer_late_p99_ms": phase["late_p99_ms"],
    }
