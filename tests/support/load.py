"""A steady load of numbers, and the sums that must result: a lost or repeated record shows in them."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from typing import Any

import distributary
from distributary.kafka import librdkafka
from tests.support.clock import LIMIT
from tests.support.stack import RunningStack

KEYS = 20


class Load(threading.Thread):
    """Produces records until stopped, and records every acknowledged one."""

    def __init__(self, stack: RunningStack, topic: str, rate: float = 300.0) -> None:
        super().__init__(daemon=True)
        self._stack = stack
        self._topic = topic
        self._rate = rate
        self._stopping = threading.Event()
        self.acknowledged: list[tuple[str, int]] = []
        self.failed: list[str] = []

    def run(self) -> None:
        producer = librdkafka.producer(
            self._stack.config.kafka, linger_ms=2, message_timeout_ms=120_000, retry_backoff_ms=50
        )
        began = time.monotonic()
        for i in itertools.count():
            if self._stopping.is_set():
                break
            key, n = f"k{i % KEYS}", i % 7

            def done(error: Any, _: Any, key: str = key, n: int = n) -> None:
                if error is None:
                    self.acknowledged.append((key, n))
                else:
                    self.failed.append(str(error))

            body = json.dumps({"k": key, "n": n})
            while not self._stopping.is_set():
                try:
                    producer.produce(self._topic, key=key, value=body, on_delivery=done)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            ahead = began + i / self._rate - time.monotonic()
            if ahead > 0:
                self._stopping.wait(ahead)
        producer.flush(120 * LIMIT)

    def stop(self) -> dict[str, Any]:
        """Stop, and return the rows that follow from the acknowledged records."""
        self._stopping.set()
        self.join()
        assert not self.failed, f"{len(self.failed)} records were refused: {self.failed[0]}"
        rows: dict[str, Any] = {}
        for key, n in self.acknowledged:
            row = rows.setdefault(key, {"k": key, "count": 0, "total": 0})
            row["count"] += 1
            row["total"] += n
        return rows


class Watcher:
    """A subscriber that checks every change: a row's count grows by one, with no gap and no repeat."""

    def __init__(self, view: str, control: str) -> None:
        self._view = view
        self._control = control
        self.rows: dict[str, Any] = {}
        self.changes = 0
        self.snapshots = 0
        self.faults: list[str] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watcher:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._follow(ready))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, ready: asyncio.Event) -> None:
        counts: dict[str, int] = {}
        async with distributary.subscribe(self._view, control=self._control, timeout=60 * LIMIT) as changes:
            async for change in changes:
                if change.op == "snapshot":
                    self.snapshots += 1
                    seen = {key: row["count"] for key, row in changes.rows.items()}
                    for key, count in counts.items():
                        if seen.get(key, 0) < count:
                            self.faults.append(f"{key} went back from {count} to {seen.get(key, 0)}")
                    counts = seen
                    ready.set()
                elif change.op in ("add", "change"):
                    self.changes += 1
                    assert change.key is not None
                    count = changes.rows[change.key]["count"]
                    if count != counts.get(change.key, 0) + 1:
                        self.faults.append(f"{change.key}: {count} after {counts.get(change.key, 0)}")
                    counts[change.key] = count
                self.rows = dict(changes.rows)

    async def sees(self, expected: dict[str, Any], limit: float) -> None:
        """Wait until the subscriber's rows are these."""
        deadline = time.monotonic() + limit * LIMIT
        while self.rows != expected:
            assert self._task is not None
            if self._task.done():
                self._task.result()
            if time.monotonic() > deadline:
                assert self.rows == expected
            await asyncio.sleep(0.05)
