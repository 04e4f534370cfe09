"""Looks at the store, at Kafka and at the supervisor once a second, and keeps what was seen.

Nothing here waits for long: whoever hangs is given up for this look, and that is what the look says.
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
from distributary.control.alarms import Alarm, Judge
from distributary.control.lag import Lag
from distributary.control.observation import KafkaSight, Oldest, Overview, Sight, read_overview
from distributary.errors import DistributaryError
from distributary.stack import stack_file
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

EVERY = 1.0
ANSWER = 2.5
"""Seconds that each of those looked at has for its answer."""
FRESH = 3.0
"""Seconds for which a look is good enough for whoever asks."""
UNWATCHED = 6
"""Looks in a row without a sign of life of the supervisor."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen:
    """A look, what is wrong, and how far each build (view, id) is behind."""

    sight: Sight
    alarms: list[Alarm]
    lags: dict[tuple[str, str], Lag]


class KafkaEye(Protocol):
    """What is asked of Kafka; blocking. Raises KafkaException or DistributaryError."""

    def look(self, names: set[str]) -> KafkaSight:
        """Describe the cluster, and these topics."""

    def next_records(self, topic: str, offsets: dict[int, int]) -> dict[int, Oldest | None]:
        """The first record at or after each offset; None where there is none."""


class Monitor:
    """One for a process; ``run`` keeps it looking, and ``now`` gives what was seen last."""

    def __init__(
        self, config: Config, reader: ReaderStore, kafka: KafkaEye | None = None, *, fresh: float = FRESH
    ) -> None:
        self._config = config
        self._reader = reader
        self._kafka = kafka
        self._fresh = fresh
        self._threads = ThreadPoolExecutor(2, "monitor")
        self._judge = Judge()
        self._beats: tuple[int, int] = (0, 0)
        self._looking = asyncio.Lock()
        self._seen: Seen | None = None

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self.look()
            except Exception:
                log.exception("the look at the stack failed")
            await asyncio.sleep(max(0.1, began + EVERY - time.monotonic()))

    async def now(self) -> Seen:
        """What was seen last; looks itself where that is too long ago."""
        seen = self._seen
        if seen is None or time.monotonic() - seen.sight.at > self._fresh:
            return await self.look()
        return seen

    async def look(self) -> Seen:
        """Look now."""
        async with self._looking:
            sight = await self._see()
            self._judge.follow(sight)
            sight = replace(sight, oldest=await self._oldest())
            alarms = self._judge.judge(sight)
            self._seen = Seen(sight, alarms, dict(self._judge.lags))
            return self._seen

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _see(self) -> Sight:
        stores, overview = await asyncio.gather(self._reader.servers(), self._overview())
        kafka = await self._look_at_kafka(overview)
        stack, watched = self._look_at_stack()
        return Sight(
            time.monotonic(),
            int(time.time() * 1000),
            tuple(stores),
            kafka,
            overview,
            stack,
            watched,
            free=self._free() if stack is not None else {},
        )

    async def _overview(self) -> Overview | None:
        try:
            async with asyncio.timeout(ANSWER):
                return await read_overview(self._reader, partly=True)
        except (TimeoutError, RedisError, OSError):
            return None

    def _free(self) -> dict[str, int]:
        """What is left where Kafka and the store write; those of one disk are told once."""
        folder, disks, free = self._config.data_dir, set[int](), {}
        for one in (folder, folder / "kafka", folder / "store"):
            with contextlib.suppress(OSError):
                if (disk := one.stat().st_dev) not in disks:
                    disks.add(disk)
                    free[str(one)] = shutil.disk_usage(one).free
        return free

    async def _look_at_kafka(self, overview: Overview | None) -> KafkaSight | None:
        kafka = self._kafka
        if kafka is None:
            return None
        views = overview.views.values() if overview is not None else ()
        names = {view.definition.feed.topic for view in views if view.definition is not None}
        seen = await self._aside(partial(kafka.look, names))
        return seen if isinstance(seen, KafkaSight) else KafkaSight(False, seen)

    async def _oldest(self) -> dict[tuple[str, str], dict[int, Oldest | None]]:
        """Look for the next record of builds that seem to stand still."""
        found: dict[tuple[str, str], dict[int, Oldest | None]] = {}
        for key, topic, offsets in self._judge.suspects() if self._kafka is not None else ():
            assert self._kafka is not None
            seen = await self._aside(partial(self._kafka.next_records, topic, offsets))
            if not isinstance(seen, str):
                found[key] = seen
        return found

    async def _aside(self, ask: Callable[[], T]) -> T | str:
        """Ask something that blocks; what went wrong, in words, where there is no answer."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(ANSWER + 1.0):
                return await loop.run_in_executor(self._threads, ask)
        except TimeoutError:
            return f"no answer within {ANSWER:g} s"
        except KafkaException as error:
            return str(error.args[0].str())
        except DistributaryError as error:
            return error.message

    def _look_at_stack(self) -> tuple[stack_file.StackState | None, bool]:
        """The supervisor's file, and whether somebody still moves its time."""
        found = stack_file.running(self._config.data_dir)
        if found is None:
            known = stack_file.read(self._config.data_dir)
            left = known is not None and known.state not in ("stopped", "failed", "stopping")
            return (known, False) if left else (None, True)
        try:
            moved = (self._config.data_dir / stack_file.FILE).stat().st_mtime_ns
        except OSError:
            moved = 0
        last, still = self._beats
        self._beats = (moved, 0 if moved != last else still + 1)
        return found, self._beats[1] < UNWATCHED
