"""A whole stack on two store servers: views of each are served, also while the other server is down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.clock import LIMIT
from tests.support.servers import StoreServer
from tests.support.stack import Feeding, RunningStack
from tests.support.wait import eventually

import distributary
from distributary.kafka.topics import delete_topic
from distributary.model.sharding import shard_of
from distributary.setup.store_server import bundled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 * LIMIT)]

TOPIC = f"sharded-{os.getpid()}"
SETTINGS = """
[kafka]
bootstrap_servers = "{kafka}"
commands_topic = "{topic}.commands"
[store]
shards = ["{a}", "{b}"]
subscription_ttl = "3 s"
[spark]
memory = "512m"
[[feeds]]
name = "f"
topic = "{topic}"
create = true
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[StoreServer]]:
    binary = bundled()
    assert binary is not None
    running = []
    for name in "ab":
        (tmp_path / name).mkdir()
        running.append(StoreServer(binary, tmp_path / name))
        running[-1].start()
    yield running
    for server in running:
        server.stop()


@pytest.fixture
def sharded(stack: RunningStack, servers: list[StoreServer], tmp_path: Path) -> Iterator[RunningStack]:
    """Reducers, control API and publisher of the test's own, on the shared Kafka and two store servers."""
    a, b = (server.url for server in servers)
    text = SETTINGS.format(kafka=stack.config.kafka.bootstrap_servers, topic=TOPIC, a=a, b=b)
    text += "".join(f'[[views]]\nname = "{name}"\nfeed = "f"\n' for pair in names(servers) for name in pair)
    running = RunningStack(tmp_path, text).start()
    yield running
    running.stop()
    running.close()
    admin = stack.admin()
    for topic in (TOPIC, f"{TOPIC}.commands", f"{TOPIC}.dead-letters"):
        delete_topic(admin, topic)


def names(servers: list[StoreServer]) -> list[list[str]]:
    """Two views for each server."""
    urls = [server.url for server in servers]
    found: list[list[str]] = [[], []]
    for name in (f"view-{n}" for n in range(1_000)):
        mine = found[urls.index(shard_of(name, urls))]
        if len(mine) < 2:
            mine.append(name)
    return found


class Seen:
    """What a subscriber was told: its rows now, and how many states and changes it took."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.states = 0


@asynccontextmanager
async def watching(stack: RunningStack, view: str) -> AsyncIterator[Seen]:
    seen = Seen()

    async def follow() -> None:
        async with distributary.subscribe(view, url=stack.addresses["websocket"]) as changes:
            async for change in changes:
                if change.op == "snapshot":
                    seen.states += 1
                    seen.rows = dict(change.rows)
                elif change.key is not None:
                    seen.rows[change.key] = change.row

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_views_on_one_server_survive_the_death_of_another(
    sharded: RunningStack, servers: list[StoreServer]
) -> None:
    (mine, beside), (lost, _) = names(servers)
    everything = sorted(name for pair in names(servers) for name in pair)
    feeding = Feeding(sharded, TOPIC)
    rows: dict[str, Any] = {}

    def produce(n: int) -> None:
        feeding.produce([(f"k{key}", {"n": n}) for key in range(3)])
        rows.update({f"k{key}": {"n": n} for key in range(3)})

    async def status() -> Any:
        return await get("/v1/status")

    async def get(path: str, expected: int = 200) -> Any:
        async with http.get(path) as reply:
            assert reply.status == expected, await reply.text()
            return await reply.json()

    async def caught_up(seen: Seen) -> None:
        async def now() -> dict[str, Any]:
            return seen.rows

        await eventually(now, lambda found: found == rows, 60)

    async with (
        aiohttp.ClientSession(sharded.addresses["control"]) as http,
        watching(sharded, mine) as one,
        watching(sharded, lost) as other,
    ):
        for view in (mine, lost):
            await feeding.live(view)
        produce(1)
        await caught_up(one)
        await caught_up(other)
        for server, here in zip(servers, names(servers), strict=True):
            keys = server.names()
            assert [name for name in everything if any(f"{{{name}}}" in key for key in keys)] == sorted(here)
        status_ = await status()
        assert [(store["answers"], store["views"]) for store in status_["stores"]] == [
            (True, sorted(here)) for here in names(servers)
        ]
        assert [view["name"] for view in status_["views"]] == everything

        servers[1].kill()
        produce(2)
        await caught_up(one)
        status_ = await eventually(status, lambda found: not found["stores"][1]["answers"])
        assert [view["name"] for view in status_["views"]] == sorted(names(servers)[0])
        (alarm,) = [alarm for alarm in status_["alarms"] if alarm["name"] == "store-unreachable"]
        assert f"the store at {servers[1].url} does not respond" in alarm["text"]
        assert all(name in alarm["text"] for name in names(servers)[1])
        assert (await get(f"/v1/views/{mine}"))["rows"]
        assert (await get(f"/v1/views/{lost}", 503))["error"]["retry"]
        async with watching(sharded, beside) as late:
            await caught_up(late)
        # Longer than a subscription lives that is not renewed.
        began = asyncio.get_running_loop().time()
        n = 2
        while asyncio.get_running_loop().time() - began < 5:
            n += 1
            produce(n)
            await caught_up(one)
        assert one.states == 1, "it went on without a break"

        servers[1].start()
        await caught_up(other)
        assert other.states == 2, "another run of the server is another epoch"
        await eventually(status, lambda found: not found["alarms"])
