"""A stack under load, with a subscriber that checks every change."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from distributary.cli.status_command import read_status
from distributary.kafka.topics import ensure_topic
from tests.support.clock import LIMIT
from tests.support.load import KEYS, Load, Watcher
from tests.support.stack import AttachedStack, Feeding
from tests.support.up_command import Up

SETTINGS = """
[spark]
batch_duration = "60 s"

[publisher]
processes = 2

[socketio]
port = 8013

[[feeds]]
name = "events"
topic = "events"
create = true
partitions = 2

[[views]]
name = "sums"
feed = "events"
reduce = "aggregate"
aggregates = { k = "last(k)", count = "count()", total = "sum(n)" }
"""
"""A stack with every component, and a view in which a lost or repeated record shows."""


class StackUnderLoad:
    """A stack under load, with a subscriber that checks every change."""

    def __init__(self, up: Up) -> None:
        self.up = up
        self.stack = AttachedStack(up.folder)
        self.feeding = Feeding(self.stack, topic="events")

    async def alarms(self) -> list[dict[str, Any]]:
        """The alarms of `distributary status`."""
        status = await asyncio.to_thread(read_status, self.up.folder / "distributary.toml")
        found: list[dict[str, Any]] = status["alarms"]
        return found

    async def not_ready(self) -> set[str]:
        """The names of the alarms that make /readyz fail; empty when it is not responding."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(3)) as http,
                http.get(f"{self.stack.addresses['control']}/readyz") as reply,
            ):
                body = await reply.json()
                return {alarm["name"] for alarm in body["alarms"]} if reply.status == 503 else set()
        except (OSError, TimeoutError, aiohttp.ClientError):
            return set()

    async def pid(self, process: str) -> int:
        """The id of a process; of the daemons, that of the view's workers, beside which there is another."""
        if process == "jvm":
            return self.up.jvm()
        if process not in ("worker", "daemon"):
            return self.up.pid(process)
        if process == "daemon":
            await self._drain_a_backlog()
            assert len(self.up.daemons()) > 1
        worker = await asyncio.to_thread(self.stack.worker, "sums")
        return worker if process == "worker" else self.up.daemon(worker)

    async def _drain_a_backlog(self) -> None:
        """Make Spark start the daemon of micro-batches, which stays, beside that of Real-Time Mode."""
        feeding = Feeding(self.stack)
        ensure_topic(self.stack.admin(), feeding.topic, 1)
        feeding.produce((f"k{n}", {"n": n}) for n in range(100))
        await feeding.live(await feeding.view(), "realtime")
        await feeding.drop()

    async def until(self, ready: Callable[[], Any], limit: float, what: str) -> float:
        """Wait for something; return the seconds that it took."""
        began = time.monotonic()
        while not await ready():
            assert time.monotonic() - began < limit * LIMIT, f"{what}: not within {limit:g} s"
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def no_alarm(self, limit: float) -> float:
        last: list[Any] = []

        async def none() -> bool:
            last[:] = await self.alarms()
            return not last

        try:
            return await self.until(none, limit, "no alarm")
        except AssertionError:
            raise AssertionError(f"still raised: {last}") from None

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[Flow]:
        """Produce records; in the end every row must be exact, in the store and at the subscriber."""
        load = Load(self.stack, "events")
        before = await self.feeding.rows("sums")
        async with Watcher("sums", self.stack.addresses["control"]) as watcher:
            flow = Flow(load, watcher, before)
            load.start()
            try:
                await flow.goes_on(self, 30, "records flow")
                yield flow
            finally:
                expected = load.stop()
            for key, row in before.items():
                mine = expected.setdefault(key, {"k": key, "count": 0, "total": 0})
                mine["count"] += row["count"]
                mine["total"] += row["total"]
            await self.feeding.rows_become("sums", expected, limit=60)
            await watcher.sees(expected, 30)
            assert watcher.faults == []


class Flow:
    """By row, how many records were acknowledged, and how many the subscriber has seen."""

    def __init__(self, load: Load, watcher: Watcher, before: Mapping[str, Any]) -> None:
        self._load = load
        self._watcher = watcher
        self._before = Counter({key: row["count"] for key, row in before.items()})

    def written(self) -> Counter[str]:
        return self._before + Counter(key for key, _ in self._load.acknowledged)

    def seen(self, written: Mapping[str, int]) -> bool:
        """Whether the rows of the subscriber have counted that many records."""
        rows = self._watcher.rows
        return all(key in rows and rows[key]["count"] >= count for key, count in written.items())

    async def goes_on(self, scene: StackUnderLoad, limit: float, what: str) -> None:
        """Wait until records that are produced from now on are acknowledged and seen by the subscriber."""
        late, goal = self.written(), Counter[str]()

        async def written() -> bool:
            nonlocal goal
            goal = self.written()
            return len(goal) >= KEYS and all(goal[key] > late[key] for key in goal)

        async def flows() -> bool:
            return self.seen(goal)

        await scene.until(written, limit, f"{what}: records are acknowledged")
        await scene.until(flows, limit, f"{what}: records flow")
