"""Publishers behind a TCP load balancer: clients of a killed one continue without a gap."""

from __future__ import annotations

import asyncio
import signal

import aiohttp
import pytest
from centrifuge import Client
from tests.integration.subscriber.conftest import Start
from tests.integration.subscriber.test_survival import Counted, producing, whole
from tests.support.fake_view import until
from tests.support.sse_reader import Stream
from tests.support.stack import Feeding
from tests.support.tcp_balancer import Balancer

pytestmark = pytest.mark.slow


async def test_client_behind_a_load_balancer_outlives_its_publisher(feeding: Feeding, publish: Start) -> None:
    """The unmodified client knows one address; each publisher has ports of its own, as on its own machine."""
    config = feeding.stack.config
    view = await feeding.view()
    started = [publish, publish]
    publishers = await asyncio.gather(
        *(asyncio.to_thread(start, config.store.url, config.kafka.bootstrap_servers) for start in started)
    )
    ports = {int(one.addresses["websocket"].split(":")[2].split("/")[0]): one for one in publishers}
    https = [int(one.addresses["http"].rpartition(":")[2]) for one in publishers]
    async with Balancer(list(ports)) as sockets, Balancer(https) as pages:
        client, notes = Client(f"ws://127.0.0.1:{sockets.port}/connection/websocket"), Counted()
        await client.connect()
        await client.new_subscription(view, notes).subscribe()
        await until(lambda: notes.subscribed)
        async with producing(feeding) as stop:
            await until(lambda: notes.last >= 10)
            await asyncio.to_thread(ports.pop(sockets.served[-1]).stop, signal.SIGKILL)
            at = notes.last
            await until(lambda: len(notes.subscribed) == 2)
            await until(lambda: notes.last >= at + 20)
            last = await stop()
        await until(lambda: notes.last == last)
        await client.disconnect()
        # What the balancer offers next may be the dead one: then it takes the other, for SSE as well.
        for _ in publishers:
            async with (
                aiohttp.ClientSession(f"http://127.0.0.1:{pages.port}") as http,
                http.get(f"/v1/views/{view}/events") as reply,
            ):
                assert (await Stream(reply).next()).name == "snapshot"
    assert sockets.served[-1] in ports
    assert notes.subscribed[1].recovered
    assert notes.unsubscribed == []
    assert whole(notes.counters, last), notes.counters
    assert notes.offsets == sorted(set(notes.offsets))
