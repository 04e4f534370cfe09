"""How many WebSocket connections a publisher takes, in all and from one address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import websockets
from tests.support.fake_view import FakeView, until
from tests.support.serving_publisher import WAIT, raw, serving

from distributary.httpd.connection_limits import Connections
from distributary.publisher.metrics import describe
from distributary.publisher.publisher_server import PublisherServer


@contextlib.asynccontextmanager
async def silent(publisher: PublisherServer) -> AsyncIterator[asyncio.StreamReader]:
    """Connect and send nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", publisher.websocket.port)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def test_connections_over_the_total_get_503_and_both_ports_count() -> None:
    async with serving(FakeView(), max_connections=2) as publisher, aiohttp.ClientSession() as http:
        async with raw(publisher) as client, silent(publisher):
            await client.connect()
            await until(lambda: publisher.tally.open == 2)
            with pytest.raises((websockets.InvalidStatus, websockets.InvalidMessage, ConnectionError)):
                await websockets.connect(publisher.addresses["websocket"], proxy=None)
            with contextlib.suppress(aiohttp.ClientConnectionError):  # when it hears of the close first
                async with http.get(f"{publisher.addresses['http']}/healthz") as reply:
                    assert reply.status == 503
            assert (await client.ask(2, ping={}))["id"] == 2
            message = describe(publisher.hub, publisher.stats, publisher.id)
            assert message["refused_connections"] == {"total": 2, "address": 0}
        await until(lambda: publisher.tally.open == 0)
        async with raw(publisher) as client:
            await client.connect()


async def test_connections_before_their_handshake_count_and_end_in_time() -> None:
    async with serving(FakeView(), header_timeout=0.3, max_connections=1) as publisher:
        async with silent(publisher) as reader:
            await until(lambda: publisher.tally.open == 1)
            async with asyncio.timeout(WAIT):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
        await until(lambda: publisher.tally.open == 0)
        async with raw(publisher) as client:
            await client.connect()


async def test_connections_of_one_address_are_bounded() -> None:
    async with serving(FakeView(), max_connections_per_address=1) as publisher:
        tally = Connections(publisher.websocket.settings, exempt_loopback=False)
        publisher.websocket.tally = tally
        url = publisher.addresses["websocket"]

        async def connect(source: str) -> websockets.ClientConnection:
            return await websockets.connect(url, local_addr=(source, 0), proxy=None)

        async with await connect("127.0.0.2"):
            with pytest.raises((websockets.InvalidStatus, websockets.InvalidMessage, ConnectionError)):
                await connect("127.0.0.2")
            async with await connect("127.0.0.3"):
                pass
        assert tally.refused == {"address": 1}
        await until(lambda: tally.open == 0)
        async with await connect("127.0.0.2"):
            pass


async def test_clients_behind_a_trusted_proxy_are_bounded_separately() -> None:
    settings: dict[str, Any] = {"trusted_proxies": ("127.0.0.1",), "max_connections_per_address": 1}
    async with serving(FakeView(), **settings) as publisher:
        ann, ben = ({"X-Forwarded-For": address} for address in ("203.0.113.1", "203.0.113.2"))
        async with raw(publisher, additional_headers=ann):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with raw(publisher, additional_headers=ann):
                    pass
            assert refused.value.response.status_code == 503
            async with raw(publisher, additional_headers=ben):
                pass
        await until(lambda: publisher.tally.open == 0)
        async with raw(publisher, additional_headers=ann):
            pass
