"""The real process on a real store: `python -m distributary.publisher`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets
from tests.support.fake_view import VIEW, FakeView
from tests.support.servers import StoreServer, free_port
from tests.support.serving_publisher import WAIT, Raw

from distributary.setup.store_server import bundled
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    server = StoreServer(Path(str(bundled())), tmp_path, fsync="always")
    server.start()
    yield server
    server.stop()


@asynccontextmanager
async def process(
    store: StoreServer, folder: Path, **settings: str
) -> AsyncIterator[tuple[Any, dict[str, str]]]:
    config = folder / "distributary.toml"
    config.write_text("")
    env = os.environ | {
        "DISTRIBUTARY_CONFIG": str(config),
        "DISTRIBUTARY_STORE_URL": store.url,
        "DISTRIBUTARY_PUBLISHER_PORT": str(free_port()),
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(free_port()),
        **{f"DISTRIBUTARY_PUBLISHER_{name.upper()}": value for name, value in settings.items()},
    }
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "distributary.publisher", env=env, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    try:
        async with asyncio.timeout(3 * WAIT):
            message = json.loads(await running.stdout.readline())
        assert (message["ready"], message["component"]) == (True, "publisher")
        yield running, message["addresses"]
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def test_process_serves_and_stops(store: StoreServer, tmp_path: Path) -> None:
    fake_view = FakeView(writer=RedisWriter(store.url))
    fake_view.put(("a", {"s": "f", "n": 1}), ("b", {"s": "g"}))
    reader = RedisReader(store.url)
    async with process(store, tmp_path) as (running, addresses):
        async with websockets.connect(addresses["websocket"], proxy=None) as socket:
            client = Raw(socket)
            await client.connect()
            await client.send({"id": 2, "subscribe": {"channel": "odds?where=s%20%3D%20'f'"}})
            reply = (await client.next())["subscribe"]
            assert reply["data"]["rows"] == [["a", {"s": "f", "n": 1}]]
            fake_view.put(("a", {"s": "g"}), ("b", {"s": "f"}))
            assert (await client.next())["push"]["pub"]["data"]["op"] == "remove"
            assert (await client.next())["push"]["pub"]["data"]["op"] == "add"
            async with asyncio.timeout(WAIT):
                while not [beat for beat in await reader.heartbeats() if beat.component == "publisher"]:
                    await asyncio.sleep(0.02)
            async with (
                aiohttp.ClientSession() as session,
                session.get(addresses["http"] + "/v1/stats") as found,
            ):
                message = await found.json()
                assert (message["subscribers"], message["deliveries"]) == (1, 2)
            running.send_signal(signal.SIGTERM)
            assert await client.closed() == (3001, "shutdown")
        async with asyncio.timeout(5):
            assert await running.wait() == 0
    await reader.close()


async def test_client_continues_at_the_next_process(store: StoreServer, tmp_path: Path) -> None:
    """A publisher is killed; its client resumes at another, from its position, out of the log."""
    fake_view = FakeView(writer=RedisWriter(store.url))
    request: dict[str, Any] = {"channel": VIEW}
    numbers: list[int] = []
    for life in range(3):
        async with process(store, tmp_path) as (running, addresses):
            async with websockets.connect(addresses["websocket"], proxy=None) as socket:
                client = Raw(socket)
                await client.connect()
                await client.send({"id": 2, "subscribe": request})
                reply = (await client.next())["subscribe"]
                assert reply.get("recovered", False) == (life > 0)
                numbers += [pub["offset"] for pub in reply.get("publications", [])]
                for _ in range(5):
                    fake_view.put(("a", {"n": len(numbers)}))
                    numbers.append((await client.next())["push"]["pub"]["offset"])
                running.kill()
                await running.wait()
            fake_view.put(("a", {"n": -1}))
            request |= {"recover": True, "epoch": reply["epoch"], "offset": numbers[-1]}
    assert numbers == list(range(1, 18))


async def test_subscribers_recover_when_the_store_restarts(store: StoreServer, tmp_path: Path) -> None:
    """Joins are refused for now while it is away; after its return subscribers are sent back and go on."""
    fake_view = FakeView(writer=RedisWriter(store.url))
    fake_view.put(("a", {"n": 1}))
    async with (
        process(store, tmp_path) as (_, addresses),
        websockets.connect(addresses["websocket"], proxy=None) as socket,
    ):
        client = Raw(socket)
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        before = (await client.next())["subscribe"]
        store.kill()
        await client.send({"id": 3, "subscribe": {"channel": "odds?keys=a"}})
        refused = await client.next()
        assert (refused["id"], refused["error"]["temporary"]) == (3, True)
        store.start()
        result = await client.next()
        assert result["push"]["unsubscribe"]["code"] == 2500
        fake_view.reopen(RedisWriter(store.url))
        request = {"recover": True, "epoch": before["epoch"], "offset": before["offset"]}
        async with asyncio.timeout(WAIT):
            for id in range(4, 1000):
                await client.send({"id": id, "subscribe": {"channel": VIEW} | request})
                reply = await client.next()
                while "id" not in reply:
                    reply = await client.next()
                if "subscribe" in reply:
                    break
                await asyncio.sleep(0.05)
        fake_view.put(("a", {"n": 2}))
        while "pub" not in (pushed := await client.next()).get("push", {}):
            pass
        assert pushed["push"]["pub"]["data"]["changed"] == {"n": 2}


async def test_taken_port_is_one_line(store: StoreServer, tmp_path: Path) -> None:
    async with process(store, tmp_path) as (_, addresses):
        port = addresses["websocket"].rsplit(":", 1)[1].split("/")[0]
        env = os.environ | {
            "DISTRIBUTARY_CONFIG": str(tmp_path / "distributary.toml"),
            "DISTRIBUTARY_STORE_URL": store.url,
            "DISTRIBUTARY_PUBLISHER_PORT": port,
        }
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "distributary.publisher", env=env, stderr=asyncio.subprocess.PIPE
        )
        _, text = await other.communicate()
        assert other.returncode == 1
        assert text.decode().splitlines()[-1].startswith(f"error: cannot listen on 127.0.0.1:{port}")
        assert "Traceback" not in text.decode()


async def test_any_process_of_a_port_reports_all(store: StoreServer, tmp_path: Path) -> None:
    shared = {"port": str(free_port()), "http_port": str(free_port()), "processes": "2"}
    async with (
        process(store, tmp_path, **shared) as (one, addresses),
        process(store, tmp_path, **shared) as (other, _),
        process(store, tmp_path) as (apart, _),
        aiohttp.ClientSession() as session,
    ):
        wanted = {str(one.pid), str(other.pid)}
        answered: set[int] = set()
        async with asyncio.timeout(3 * WAIT):
            while answered != {one.pid, other.pid}:
                # A connection each: the system picks the process by the connection.
                close = {"Connection": "close"}
                async with session.get(addresses["http"] + "/v1/stats", headers=close) as reply:
                    answered.add((await reply.json())["pid"])
        for _ in range(8):
            message: set[str] = set()
            async with asyncio.timeout(WAIT):
                while message != wanted:
                    async with session.get(addresses["http"] + "/metrics", headers=close) as reply:
                        text = await reply.text()
                    message = set(
                        re.findall(r'distributary_publisher_connections\{process="(\d+)"\} 0', text)
                    )
                    assert str(apart.pid) not in message
                    if message != wanted:  # the first beats are still to come
                        await asyncio.sleep(0.05)
