"""Scenario 3: how fast a new view folds what Kafka already has; every row is checked against a plain fold."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from bench import load, stacks
from bench.child import BenchError
from bench.figures import Say
from bench.records import check_totals, fold_amounts
from bench.spec import CatchUp
from distributary.config import Config
from distributary.model.build import Build
from distributary.stack.stack_components import services
from distributary.store.redis_reader import RedisReader

LOOK = 0.02
"""Seconds between two looks at how far it is."""

_AGGREGATE = 'reduce = "aggregate"\n[views.aggregates]\ntotal = "sum(amount)"\nrecords = "count()"'
_exact = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


async def measure(spec: CatchUp, folder: Path, say: Say) -> dict[str, Any]:
    """Fill a topic with Kafka and the store alone, then start the reducers and watch them."""
    config = stacks.configure(folder / "ground", spec.partitions, view=_AGGREGATE)
    async with AsyncExitStack() as exits:
        say("starting Kafka and the store")
        ground = await exits.enter_async_context(stacks.running(config, say, services=[]))
        say(f"producing {spec.records:,} records of {spec.value_bytes} bytes")
        await _fill(spec, ground.addresses["kafka"], folder)
        wanted = await asyncio.to_thread(fold_amounts, spec.keys, spec.records)
        over = {
            "kafka.bootstrap_servers": ground.config.kafka.bootstrap_servers,
            "store.url": ground.config.store.url,
        }
        reducing = stacks.configure(folder / "reducers", spec.partitions, view=_AGGREGATE, overrides=over)
        progress = stacks.Progress(reducing)
        exits.callback(progress.close)
        say("starting the reducers")
        began = time.monotonic()
        only = [one for one in services() if one.name == "reducers"]
        watching = asyncio.create_task(_watch(progress, spec.records, spec.limit))
        try:
            await exits.enter_async_context(stacks.running(reducing, say, services=only))
            first, head, last = await watching
        finally:
            watching.cancel()
        say("checking every row")
        wrong = check_totals(await _rows(reducing, progress.build), wanted)
    if wrong:
        raise BenchError(f"{len(wrong)} of {len(wanted)} rows are wrong, such as {wrong[0]}")
    return {
        "catchup_rec_s": round((spec.records - head) / (last - first), 1) if last > first else 0.0,
        "catchup_records": spec.records,
        "catchup_fold_s": round(last - first, 3),
        "catchup_total_s": round(last - began, 3),
        "catchup_rows_checked": len(wanted),
    }


async def _fill(spec: CatchUp, bootstrap: str, folder: Path) -> None:
    async with AsyncExitStack() as exits:
        records = {"kind": "amounts", "keys": spec.keys, "size": spec.value_bytes}
        producer = await load.producer(exits, folder, bootstrap, 20, **records)
        await load.phase(producer, count=spec.records)


async def _watch(progress: stacks.Progress, count: int, limit: float) -> tuple[float, int, float]:
    """When the first records were folded, how many those were, and when all were."""
    deadline = time.monotonic() + limit
    first, head = 0.0, 0
    while True:
        folded, now = await asyncio.to_thread(progress.folded), time.monotonic()
        if folded and not first:
            first, head = now, folded
        if folded >= count:
            return first, head, now
        if now > deadline:
            raise BenchError(f"only {folded:,} of {count:,} records were folded within {limit:g} s")
        await asyncio.sleep(LOOK)


async def _rows(config: Config, build: Build) -> dict[str, tuple[Decimal, int]]:
    """Read all rows from the store."""
    reader = RedisReader(config.store.url)
    out: dict[str, tuple[Decimal, int]] = {}
    try:
        cursor = 0
        while True:
            page = await reader.page(build, cursor, 1000)
            for key, row in page.rows:
                fields = _exact.decode(row.json)
                out[key] = (Decimal(fields["total"]), int(fields["records"]))
            cursor = page.cursor
            if not cursor:
                return out
    finally:
        await reader.close()
