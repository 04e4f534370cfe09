"""What the parts of a stack hold for queries and subscriptions: in the store, in maps, in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import psutil
import redis.asyncio

from distributary.store.redis_reader import RedisReader

SIZES = ("queries", "fields_read", "fields", "values", "bounds", "rest", "times")
"""What a reducer says that it holds for queries."""


class Held(NamedTuple):
    """All that anybody holds of a view's queries; equal before and after when nothing is left."""

    stored: dict[str, int]
    """By key of the registry, and of the builds what belongs to queries: how many entries it has."""
    reducers: dict[str, tuple[int, ...]]
    publishers: tuple[int, int]
    """Queries and subscribers."""


async def read(url: str, view: str) -> Held:
    """Ask the store, and through their beats the reducers and the publishers."""
    reader, store = RedisReader(url), redis.asyncio.Redis.from_url(url)
    try:
        names = sorted([name.decode() async for name in store.scan_iter(f"d:{{{view}}}:*", 1_000)])
        # The two short logs of what befell the registry are kept, and bounded.
        sizes = {name: await _size(store, name) for name in names if not name.endswith((":q:steps", ":ctl"))}
        sizes = {name: size for name, size in sizes.items() if size}
        reducers, queries, subscribers = {}, 0, 0
        for beat in await reader.heartbeats():
            said = json.loads(beat.stats)
            if beat.component == "reducer" and beat.id.startswith(f"{view}/") and "queries" in said:
                reducers[beat.id] = tuple(int(said[size]) for size in SIZES)
            elif beat.component == "publisher" and view in said["views"]:
                queries += int(said["views"][view]["queries"])
                subscribers += int(said["views"][view]["subscribers"])
        return Held(sizes, reducers, (queries, subscribers))
    finally:
        await store.aclose()
        await reader.close()


async def _size(store: Any, name: str) -> int:
    kind = name.split(":", 2)[2]
    if kind.startswith(("q:", "s:")) or kind.endswith((":last", ":since")):
        count = {b"hash": store.hlen, b"zset": store.zcard, b"list": store.llen, b"stream": store.xlen}
        of_kind = count.get(await store.type(name))  # none: it went since it was named
        return int(await of_kind(name)) if of_kind is not None else 0
    return 1


async def store_bytes(url: str) -> int:
    """What the store server has allocated."""
    store = redis.asyncio.Redis.from_url(url)
    try:
        found: dict[str, Any] = await store.info("memory")
        return int(found["used_memory"])
    finally:
        await store.aclose()


def resident(pids: Iterable[int], *, jvm: bool) -> int:
    """Resident bytes of processes and all under them: of the JVMs among them, or of the others."""
    found: set[psutil.Process] = set()
    for pid in pids:
        process = psutil.Process(pid)
        found |= {process, *process.children(recursive=True)}
    total = 0
    for process in found:
        try:
            if (process.name() == "java") is jvm:
                total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
