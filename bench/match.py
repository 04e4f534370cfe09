"""How fast changes are matched with live queries, on one core, and what a query costs in memory.

A quarter of the queries each: equalities, one-sided ranges, ranges with two ends, and an equality with a
range. However many there are, a change concerns about ten of them, so the cost of many queries can be told
from that of many matches.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
import tracemalloc
from pathlib import Path
from statistics import median
from typing import Any

from bench.child import BenchError
from bench.figures import Say
from bench.spec import Match
from distributary.model.query import Query
from distributary.reducers.query_index import QueryIndex
from distributary.reducers.row_json import Fields, read_object

VIEW = "board"
LEAGUE_QUERIES = 250
"""Compound queries of one league: more leagues for more queries."""

Change = tuple[str, Fields, Fields]


async def measure(spec: Match, folder: Path, say: Say) -> dict[str, Any]:
    """Match the same number of changes with many and with few queries, in turns; the median round counts.

    The ratio is that of neighbours in time: whatever else the machine does slows both.
    """
    say(f"writing {spec.queries:,} queries")
    many, few = texts(spec.queries), texts(spec.few)
    began = time.thread_time()
    index = hold(many)
    added = spec.queries / (time.thread_time() - began)
    sides = [(index, changes(spec.queries, spec.changes)), (hold(few), changes(spec.few, spec.changes))]
    matches = [check(*side) / spec.changes for side in sides]
    say(f"{matches[0]:.1f} and {matches[1]:.1f} matches a change with {spec.queries:,} and {spec.few:,}")
    seconds: list[tuple[float, float]] = []
    for _ in range(spec.rounds):
        seconds.append((cost(*sides[0]), cost(*sides[1])))
        await asyncio.sleep(0)  # so that Ctrl-C is heard
    rates = [spec.changes / median(side) for side in zip(*seconds, strict=True)]
    say(f"{rates[0]:,.0f} and {rates[1]:,.0f} changes/s; weighing the queries")
    del index, sides
    return {
        "match_changes_s": round(rates[0], 1),
        "match_few_changes_s": round(rates[1], 1),
        "match_cost_ratio": round(median(many / few for many, few in seconds), 3),
        "match_bytes_per_query": round(weight(many), 1),
        "match_adds_s": round(added, 1),
        "match_per_change": round(matches[0], 2),
        "match_few_per_change": round(matches[1], 2),
    }


def texts(count: int) -> list[str]:
    """The normal forms of so many different queries, as a reducer gets them."""
    chance = random.Random(1)
    part = count // 4
    found = [f"{('home', 'away')[n % 2]} = 'team {n // 2}'" for n in range(part)]
    found += [f"price > {n + 0.25}" for n in range(part)]
    for n in range(part):
        low = round(chance.uniform(0, part), 3)
        found.append(f"odds between {low} and {low + round(chance.choice((1, 2, 4)) + n / part, 4):.4f}")
    for n in range(part):
        league, low = divmod(n, LEAGUE_QUERIES)
        found.append(f"league = 'league {league}' and margin >= {low} and margin < {low + 2.5}")
    made = {Query.parse(VIEW, where).text for where in found}
    if len(made) != 4 * part:
        raise BenchError("two of the queries are the same")
    return sorted(made, key=lambda text: chance.random())


def changes(queries: int, count: int) -> list[Change]:
    """Rows before and after: the price, the odds and the margin move, and fields that nobody asks for."""
    chance = random.Random(2)
    part = queries // 4
    found = []
    for n in range(count):
        odds, margin = chance.uniform(5, part - 5), chance.uniform(5, LEAGUE_QUERIES - 5)
        row = {
            "home": f"team {chance.randrange(part // 2)}",
            "away": f"team {chance.randrange(part // 2)}",
            "league": f"league {chance.randrange(max(1, part // LEAGUE_QUERIES))}",
            "price": round(chance.uniform(1, 4), 2),
            "odds": round(odds, 2),
            "margin": round(margin, 1),
            "status": "open",
            "note": "x" * 60,
        }
        moved = {
            "price": round(chance.uniform(1, 4), 2),
            "odds": round(odds + chance.uniform(-0.5, 0.5), 2),
            "margin": round(margin + chance.uniform(-0.5, 0.5), 1),
            "updated": n,
        }
        old = read_object(json.dumps(row).encode())
        found.append((f"row {n}", old, old | read_object(json.dumps(moved).encode())))
    return found


def hold(texts: list[str]) -> QueryIndex:
    """An index of the queries, made as a reducer makes it."""
    index = QueryIndex()
    for number, text in enumerate(texts):
        index.add(number, Query.load(VIEW, text))
    return index


def check(index: QueryIndex, changes: list[Change]) -> int:
    """Count all matches, and that they are not none."""
    found = sum(sum(map(len, index.match(*change))) for change in changes)
    if not found:
        raise BenchError("no change matched any query")
    return found


def cost(index: QueryIndex, changes: list[Change]) -> float:
    """CPU seconds that matching takes."""
    gc.collect()
    began = time.thread_time()
    for key, old, new in changes:
        index.match(key, old, new)
    return time.thread_time() - began


def weight(texts: list[str]) -> float:
    """Bytes that a query takes in the index, everything that it keeps alive included."""
    gc.collect()
    tracemalloc.start()
    try:
        index = hold(texts)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return held / len(index)
