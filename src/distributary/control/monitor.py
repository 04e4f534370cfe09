"""Observes the store, Kafka and the supervisor once a second, and keeps the last observation.

Every request has a short time-out: what does not respond is reported as such by the observation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from distributary.config import Config
from distributary.control.alarms import Alarm, AlarmTracker
from distributary.control.lag import Lag
from distributary.control.observation import (
    KafkaObservation,
    NextRecord,
    Observation,
    Overview,
    read_overview,
)
from distributary.errors import DistributaryError
from distributary.stack import stack_file
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two observations."""
TIMEOUT = 2.5
"""Of each request, in seconds."""
MAX_AGE = 3.0
"""Seconds for which an observation is served."""
MISSED_HEARTBEATS = 6
"""Observations in a row without a heartbeat of the supervisor, after which it counts as gone."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assessment:
    """An observation, its alarms, and how far each build (view, id) is behind."""

    observation: Observation
    alarms: list[Alarm]
    lags: dict[tuple[str, str], Lag]


class KafkaSource(Protocol):
    """What is needed of Kafka; blocking. Raises KafkaException or DistributaryError."""

    def observe(self, topics: set[str]) -> KafkaObservation:
        """Describe the cluster and these topics."""

    def next_records(self, topic: str, offsets: dict[int, int]) -> dict[int, NextRecord | None]:
        """Find the first record at or after each offset; None without one."""


class Monitor:
    """Observes the stack; ``run`` does so repeatedly, and ``now`` returns the last assessment."""

    def __init__(
        self,
        config: Config,
        reader: ReaderStore,
        kafka: KafkaSource | None = None,
        *,
        max_age: float = MAX_AGE,
    ) -> None:
        self._config = config
        self._reader = reader
        self._kafka = kafka
        self._max_age = max_age
        self._threads = ThreadPoolExecutor(2, "monitor")
        self._alarms = AlarmTracker()
        self._supervisor: tuple[int, int] = (0, 0)
        """The time of the supervisor's file, and for how many observations it has not changed."""
        self._observing = asyncio.Lock()
        self._last: Assessment | None = None

    async def run(self) -> None:
        """Observe once a second until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self.observe()
            except Exception:
                log.exception("cannot observe the stack")
            await asyncio.sleep(max(0.1, began + INTERVAL - time.monotonic()))

    async def now(self) -> Assessment:
        """Return the last assessment; observes if that is too old."""
        last = self._last
        if last is None or time.monotonic() - last.observation.at > self._max_age:
            return await self.observe()
        return last

    async def observe(self) -> Assessment:
        """Observe now."""
        async with self._observing:
            observation = await self._observe()
            self._alarms.update_lags(observation)
            observation = replace(observation, next_records=await self._next_records())
            alarms = self._alarms.evaluate(observation)
            self._last = Assessment(observation, alarms, dict(self._alarms.lags))
            return self._last

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _observe(self) -> Observation:
        stores, overview = await asyncio.gather(self._reader.servers(), self._overview())
        kafka = await self._observe_kafka(overview)
        stack, supervised = self._observe_stack()
        return Observation(
            at=time.monotonic(),
            time=int(time.time() * 1000),
            stores=tuple(stores),
            kafka=kafka,
            overview=overview,
            stack=stack,
            supervised=supervised,
            free_bytes=self._free_bytes() if stack is not None else {},
        )

    async def _overview(self) -> Overview | None:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await read_overview(self._reader, partly=True)
        except (TimeoutError, RedisError, OSError):
            return None

    def _free_bytes(self) -> dict[str, int]:
        """Return the free space where Kafka and the store write; folders on the same disk count once."""
        folder, disks, free = self._config.data_dir, set[int](), {}
        for one in (folder, folder / "kafka", folder / "store"):
            with contextlib.suppress(OSError):
                if (disk := one.stat().st_dev) not in disks:
                    disks.add(disk)
                    free[str(one)] = shutil.disk_usage(one).free
        return free

    async def _observe_kafka(self, overview: Overview | None) -> KafkaObservation | None:
        kafka = self._kafka
        if kafka is None:
            return None
        views = overview.views.values() if overview is not None else ()
        names = {view.definition.feed.topic for view in views if view.definition is not None}
        found = await self._call(partial(kafka.observe, names))
        return found if isinstance(found, KafkaObservation) else KafkaObservation(answers=False, error=found)

    async def _next_records(self) -> dict[tuple[str, str], dict[int, NextRecord | None]]:
        """Find the next record of builds that seem to have stalled."""
        found: dict[tuple[str, str], dict[int, NextRecord | None]] = {}
        for key, topic, offsets in self._alarms.stalled() if self._kafka is not None else ():
            assert self._kafka is not None
            records = await self._call(partial(self._kafka.next_records, topic, offsets))
            if not isinstance(records, str):
                found[key] = records
        return found

    async def _call(self, call: Callable[[], T]) -> T | str:
        """Make a blocking call on a thread; returns its error as a string if it fails."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT + 1.0):
                return await loop.run_in_executor(self._threads, call)
        except TimeoutError:
            return f"no response within {TIMEOUT:g} s"
        except KafkaException as error:
            return str(error.args[0].str())
        except DistributaryError as error:
            return error.message

    def _observe_stack(self) -> tuple[stack_file.StackState | None, bool]:
        """Return the supervisor's file, and whether its time still changes."""
        running = stack_file.running(self._config.data_dir)
        if running is None:
            found = stack_file.read(self._config.data_dir)
            died = found is not None and found.state not in ("stopped", "failed", "stopping")
            return (found, False) if died else (None, True)
        try:
            modified = (self._config.data_dir / stack_file.FILE).stat().st_mtime_ns
        except OSError:
            modified = 0
        last, missed = self._supervisor
        missed = 0 if modified != last else missed + 1
        self._supervisor = (modified, missed)
        return running, missed < MISSED_HEARTBEATS
