"""A publisher is killed under its subscribers; they go on at the other one without a gap."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import psutil
import pytest
from centrifuge import Client, SubscriptionEventHandler
from tests.integration.subscriber.conftest import Start
from tests.support.clock import LIMIT
from tests.support.fake_view import until
from tests.support.processes import Process
from tests.support.servers import free_port
from tests.support.stack import Feeding

import distributary

pytestmark = pytest.mark.slow

KEYS = 3


@asynccontextmanager
async def producing(feeding: Feeding) -> AsyncIterator[Callable[[], Any]]:
    """Write counters, some at a time, until the call; it gives the last of every key."""
    last = 0
    going = True

    async def run() -> None:
        nonlocal last
        while going:
            records = [(f"k{key}", {"n": n}) for n in range(last + 1, last + 6) for key in range(KEYS)]
            await asyncio.to_thread(feeding.produce, records)
            last += 5

    task = asyncio.create_task(run())

    async def stop() -> int:
        nonlocal going
        going = False
        await task
        return last

    try:
        yield stop
    finally:
        await stop()


class Counted(SubscriptionEventHandler):  # type: ignore[misc]
    """Writes down the counters that come, and the positions."""

    def __init__(self) -> None:
        self.counters: dict[str, list[int]] = {}
        self.offsets: list[int] = []
        self.subscribed: list[Any] = []
        self.unsubscribed: list[Any] = []
        self.ready = False

    async def on_subscribed(self, ctx: Any) -> None:
        self.subscribed.append(ctx)

    async def on_unsubscribed(self, ctx: Any) -> None:
        self.unsubscribed.append((ctx.code, ctx.reason))

    async def on_publication(self, ctx: Any) -> None:
        data = ctx.pub.data
        if data["op"] == "snapshot":
            assert not self.ready, "a second state"
            for key, row in data["rows"]:
                self.counters[key] = [row["n"]]
        elif data["op"] == "ready":
            self.ready = True
        else:
            row = data["changed"] if data["op"] == "change" else data["row"]
            self.counters.setdefault(data["key"], []).append(row["n"])
            self.offsets.append(ctx.pub.offset)

    @property
    def last(self) -> int:
        return min((found[-1] for found in self.counters.values()), default=0)


def whole(counters: dict[str, list[int]], last: int) -> bool:
    """Say whether every key was counted on by one to the last."""
    return len(counters) == KEYS and all(
        found == list(range(found[0], last + 1)) for found in counters.values()
    )


def serving(publishers: list[Process]) -> Process:
    """Find the publisher that has the WebSocket connection of this process."""
    mine = {c.laddr for c in psutil.Process().net_connections("tcp") if c.status == "ESTABLISHED"}
    for one in publishers:
        port = int(one.addresses["websocket"].split(":")[2].split("/")[0])
        for connection in psutil.Process(one.pid).net_connections("tcp"):
            if connection.laddr.port == port and connection.raddr and connection.raddr in mine:
                return one
    raise AssertionError("no publisher has a connection of ours")


async def test_two_step_subscription_survives_its_publisher(feeding: Feeding, publish: Start) -> None:
    """Two publishers share an address; the unmodified client reconnects to it and reaches the other."""
    config, ports = feeding.stack.config, (free_port(), free_port())
    view = await feeding.view()
    publishers = [
        await asyncio.to_thread(publish, config.store.url, config.kafka.bootstrap_servers, ports)
        for _ in range(2)
    ]
    async with aiohttp.ClientSession(feeding.stack.addresses["control"]) as http:
        async with http.post("/v1/subscriptions", json={"view": view}) as reply:
            made = await reply.json()
        client, notes = Client(publishers[0].addresses["websocket"]), Counted()
        await client.connect()
        sub = client.new_subscription(made["channel"], notes, data={"subscription": made["id"]})
        await sub.subscribe()
        await until(lambda: notes.subscribed)
        async with producing(feeding) as stop:
            async with http.post(f"/v1/subscriptions/{made['id']}/begin") as reply:
                assert reply.status == 200
            await until(lambda: notes.last >= 10)
            await asyncio.to_thread(serving(publishers).stop, signal.SIGKILL)
            at = notes.last
            await until(lambda: len(notes.subscribed) == 2)
            await until(lambda: notes.last >= at + 20)
            last = await stop()
        await until(lambda: notes.last == last)
        await client.disconnect()
    assert sum(one.running for one in publishers) == 1
    assert notes.subscribed[1].recovered
    assert notes.unsubscribed == []
    assert whole(notes.counters, last), notes.counters
    assert notes.offsets == sorted(set(notes.offsets))


async def test_python_subscriber_survives_its_publisher(feeding: Feeding, publish: Start) -> None:
    config = feeding.stack.config
    view = await feeding.view()
    publishers = [
        await asyncio.to_thread(publish, config.store.url, config.kafka.bootstrap_servers) for _ in range(2)
    ]
    urls = [one.addresses["websocket"] for one in publishers]
    counters: dict[str, list[int]] = {}
    snapshots, seqs, killed, last = 0, [], False, -1
    async with (
        asyncio.timeout(60 * LIMIT),
        producing(feeding) as stop,
        distributary.subscribe(view, url=urls) as changes,
    ):
        async for change in changes:
            assert change.position is not None
            if change.op == "snapshot":
                snapshots += 1
                counters = {key: [row["n"]] for key, row in change.rows.items()}
            else:
                assert change.key is not None
                assert change.row is not None
                counters.setdefault(change.key, []).append(change.row["n"])
                seqs.append(change.position.seq)
            low = min((found[-1] for found in counters.values()), default=0)
            if low >= 10 and not killed:
                killed = True
                at = low
                victim = serving(publishers)
                await asyncio.to_thread(victim.stop, signal.SIGKILL)
            if killed and last < 0 and low >= at + 40:
                last = await stop()
            if low == last:
                break
    assert sum(one.running for one in publishers) == 1
    assert snapshots == 1, "it was resumed from the log"
    assert whole(counters, last), counters
    assert seqs == sorted(set(seqs))
