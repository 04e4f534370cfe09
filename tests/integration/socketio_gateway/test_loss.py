"""What happens when the other side goes away, or does not read."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import websockets
from tests.integration.socketio_gateway.gateways import WAIT, gateway, needs_node, node
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.servers import StoreServer, free_port
from tests.support.serving_publisher import serving

from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

pytestmark = needs_node


@asynccontextmanager
async def process(*words: str, folder: Path, **settings: str) -> AsyncIterator[tuple[Any, dict[str, str]]]:
    """A module as a process; its first line has its addresses."""
    config = folder / "distributary.toml"
    config.write_text("")
    env = os.environ | {"DISTRIBUTARY_CONFIG": str(config)}
    env |= {f"DISTRIBUTARY_{name.upper()}": value for name, value in settings.items()}
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    try:
        async with asyncio.timeout(WAIT):
            yield running, json.loads(await running.stdout.readline())["addresses"]
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def test_killed_publisher_is_hidden_from_the_client(store: StoreServer, tmp_path: Path) -> None:
    """The gateway goes on at the other publisher: no change is missing, none comes twice."""
    fake_view = FakeView(writer=RedisWriter(store.url))
    reader = RedisReader(store.url)
    ports = {"publisher_port": str(free_port()), "publisher_http_port": str(free_port())}
    async with (
        process("distributary.publisher", folder=tmp_path, store_url=store.url, **ports) as (first, one),
        serving(SimpleNamespace(reader=reader)) as other,  # type: ignore[arg-type]
        process(
            *("distributary.cli", "socketio", "--port", str(free_port())),
            *("--publisher", one["websocket"], "--publisher", other.addresses["websocket"]),
            folder=tmp_path,
        ) as (relay, gate),
    ):
        port = int(gate["socketio"].split(":")[2].split("/")[0])
        async with node(port) as client:
            joined = await client.ask("subscribe", {"view": VIEW})
            seen = []
            for n in range(3):
                fake_view.put(("a", {"n": n}))
                seen.append((await client.next("publication"))["offset"])
            first.kill()
            await first.wait()
            for n in range(3, 8):
                fake_view.put(("a", {"n": n}))
                seen.append((await client.next("publication"))["offset"])
            assert seen == list(range(joined["offset"] + 1, joined["offset"] + 9))
            assert other.stats.connections == 1
            assert not {"disconnect", "subscribed"} & {one["event"] for one in client.received}
            relay.send_signal(signal.SIGTERM)
            assert await client.next("disconnected") == {"code": 3001, "reason": "shutdown"}
            assert (await client.next("disconnect"))["reason"] == "transport close"
        async with asyncio.timeout(WAIT):
            assert await relay.wait() == 0
    await reader.close()


async def test_failed_resume_is_a_new_snapshot() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    async with (
        serving(fake_view) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, "--websocket") as client,
    ):
        await client.ask("subscribe", {"view": VIEW})
        fake_view.crash()  # the epoch changes: the publisher sends all subscribers back (2500)
        result = await client.next("subscribed")
        assert (result["recovered"], result["data"]["rows"]) == (False, [["a", {"n": 0}]])
        fake_view.put(("a", {"n": 1}))
        assert (await client.next("publication"))["data"]["changed"] == {"n": 1}


async def test_client_waits_for_a_publisher() -> None:
    fake_view = FakeView()
    port = free_port()
    async with (
        gateway([f"ws://127.0.0.1:{port}/connection/websocket"]) as one,
        node(one.port, "--websocket") as client,
    ):
        await client.next("open")
        async with serving(fake_view) as publisher:
            # A plain relay of bytes, so that the address is known before the publisher is there.
            target = publisher.addresses["websocket"].split("//")[1].split("/")[0].split(":")
            server = await asyncio.start_server(_pipe(target[0], int(target[1])), "127.0.0.1", port)
            await client.next("connect")
            assert "data" in await client.ask("subscribe", {"view": VIEW})
            server.close()


def _pipe(host: str, port: int) -> Any:
    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, out = await asyncio.open_connection(host, port)
        await asyncio.gather(copy(reader, out), copy(back, writer), return_exceptions=True)

    return serve


async def test_client_that_does_not_read_is_closed_and_reconnects() -> None:
    fake_view = FakeView()
    async with (
        serving(fake_view) as publisher,
        gateway([publisher.addresses["websocket"]], stall=0.5, queue_bytes=65_536) as one,
        node(one.port, "--websocket") as slow,
        node(one.port, "--websocket") as quick,
    ):
        joined = await slow.ask("subscribe", {"view": VIEW})
        await quick.ask("subscribe", {"view": VIEW})
        await slow.say("pause")
        text = "x" * 30_000

        async def pour() -> None:
            for n in range(1000):
                fake_view.put(("a", {"n": n, "text": text}))
                await quick.next("publication")
                if one.clients == 1:
                    return

        await pour()
        await until(lambda: one.clients == 1)
        await slow.say("resume")
        assert (await slow.next("disconnect"))["reason"] in ("transport close", "transport error")
        await slow.next("connect")
        seen = [one["body"]["offset"] for one in slow.received if one["event"] == "publication"]
        assert seen == list(range(1, len(seen) + 1))
        position = {"epoch": joined["epoch"], "offset": len(seen)}
        again = await slow.ask("subscribe", {"view": VIEW, "recover": position})
        assert again["recovered"] is True
        missed = [pub["offset"] for pub in again["publications"]]
        assert missed == list(range(len(seen) + 1, again["offset"] + 1))


@pytest.mark.parametrize("words", [["--websocket"], ["--polling"]], ids=["websocket", "polling"])
async def test_snapshot_comes_before_the_changes(words: list[str]) -> None:
    """Under a steady stream of changes an acknowledgement is never overtaken by its channel's changes."""
    fake_view = FakeView()
    stop = asyncio.Event()

    async def pour() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            fake_view.put(("a", {"n": n}))
            await asyncio.sleep(0.001)

    async with (
        serving(fake_view) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, *words) as client,
    ):
        await client.next("connect")
        pouring = asyncio.create_task(pour())
        try:
            for _ in range(10):
                before = len(client.received)
                joined = await client.ask("subscribe", {"view": VIEW})
                assert [one["event"] for one in client.received[before:]] == ["ack"]
                for n in range(1, 4):
                    assert (await client.next("publication"))["offset"] == joined["offset"] + n
                await client.ask("unsubscribe", {"channel": VIEW})
        finally:
            stop.set()
            await pouring


async def test_one_frame_with_a_reply_and_its_changes_keeps_their_order() -> None:
    """A publisher may put a reply and the first changes into one frame."""

    async def speak(socket: websockets.ServerConnection) -> None:
        async for text in socket:
            for line in str(text).splitlines():
                command = json.loads(line)
                if "connect" in command:
                    await socket.send(json.dumps({"id": command["id"], "connect": {}}))
                elif "subscribe" in command:
                    reply = {"id": command["id"], "subscribe": {"epoch": "e", "offset": 0}}
                    pushes = [{"push": {"channel": "c", "pub": {"data": n, "offset": n}}} for n in (1, 2)]
                    await socket.send("\n".join(map(json.dumps, [reply, *pushes])))

    async with websockets.serve(speak, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with gateway([f"ws://127.0.0.1:{port}"]) as one, node(one.port, "--websocket") as client:
            await client.next("connect")
            await client.say('subscribe {"channel": "c"}')
            await client.next("publication")
            assert [message["event"] for message in client.received] == [
                "open",
                "connect",
                "ack",
                "publication",
            ]
