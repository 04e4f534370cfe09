"""Scenario 2: the highest rate that is folded, matched with live queries and delivered without lag."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import load, stacks
from bench.child import BenchError, Child
from bench.figures import Sample, Say, Verdict, judge
from bench.records import group_name
from bench.spec import Live
from distributary.model.channel_name import encode_channel

EVERY = 0.5
"""Seconds between two samples of the lag."""


async def measure(spec: Live, folder: Path, say: Say) -> dict[str, Any]:
    """Try the rates upwards; the figure is what was really folded a second at the last that was held."""
    config = stacks.configure(folder, spec.partitions)
    async with AsyncExitStack() as exits:
        say("starting a stack")
        stack = await exits.enter_async_context(stacks.running(config, say))
        await stacks.wait_live(stack)
        channels = [
            encode_channel(stacks.VIEW, where=f"group = '{group_name(n)}'") for n in range(spec.queries)
        ]
        where = stack.addresses
        subscriber = await load.subscriber(exits, folder, where["websocket"], channels, stamps=False)
        records = {"kind": "grouped", "keys": spec.keys, "groups": spec.queries, "size": spec.value_bytes}
        producer = await load.producer(exits, folder, where["kafka"], 5, **records)
        progress = stacks.Progress(stack.config)
        exits.callback(progress.close)
        say(f"warming up: {spec.warm_up_rate:,} rec/s for {spec.warm_up:g} s")
        await _hold(producer, progress, spec.warm_up_rate, spec.warm_up)
        delivered = await _delivered(subscriber, progress)
        verdicts: list[tuple[int, Verdict]] = []
        for rate in spec.rates:
            say(f"holding {rate:,} rec/s for {spec.seconds:g} s")
            samples = await _hold(producer, progress, rate, spec.seconds)
            verdict = judge(samples, rate, spec.bound)
            if verdict.sustained:
                try:
                    delivered = await _delivered(subscriber, progress)
                except BenchError as error:
                    verdict = replace(verdict, sustained=False, why=str(error))
            verdicts.append((rate, verdict))
            say(_describe(rate, verdict))
            if not verdict.sustained:
                break
    held = [(rate, verdict) for rate, verdict in verdicts if verdict.sustained]
    best = held[-1][1] if held else verdicts[0][1]
    return {
        "live_rec_s": best.rate if held else 0.0,
        "live_lag_end_records": best.lag_end,
        "live_lag_max_records": best.lag_max,
        "live_queries": spec.queries,
        "live_changes_delivered": delivered,
        "live_rates": [
            {"rate": rate, "sustained": verdict.sustained, "folded_rec_s": verdict.rate, "why": verdict.why}
            for rate, verdict in verdicts
        ],
    }


async def _hold(producer: Child, progress: stacks.Progress, rate: int, seconds: float) -> list[Sample]:
    """Produce at a rate and sample the lag meanwhile."""
    phase = asyncio.create_task(load.phase(producer, rate=rate, seconds=seconds))
    samples: list[Sample] = []
    until = time.monotonic() + seconds - EVERY / 2
    try:
        while time.monotonic() < until and not phase.done():
            samples.append(await asyncio.to_thread(progress.sample))
            await asyncio.sleep(EVERY)
        await phase
    finally:
        phase.cancel()
    return samples


async def _delivered(subscriber: Child, progress: stacks.Progress) -> int:
    """Wait until all is folded and has come to the subscriber: each record changes a row of just one query.

    So nothing of one rate counts as the next one's, and a rate at which the publisher lets go of its
    subscriber is not held.
    """
    ends = (await asyncio.to_thread(progress.sample)).ends
    await progress.wait_folded(ends, 60)
    await load.arrived(subscriber, ends)
    return ends


def _describe(rate: int, verdict: Verdict) -> str:
    lag = f"{verdict.lag_end:,} records behind at the end, {verdict.lag_max:,} at most"
    if verdict.sustained:
        return f"{rate:,} rec/s held: {verdict.rate:,.0f} rec/s folded, {lag}"
    return f"{rate:,} rec/s not held ({verdict.why}): {verdict.rate:,.0f} rec/s folded, {lag}"
