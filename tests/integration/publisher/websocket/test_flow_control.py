"""What may wait for a reader, on real sockets and the event loop that publishers run on."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket as sockets
from typing import Any

import pytest
import uvloop
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.serving_publisher import WAIT, raw, serving
from tests.support.wire_formats import write

from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.publisher_server import PublisherServer


async def opened(publisher: PublisherServer, *commands: dict[str, Any]) -> sockets.socket:
    """A connected WebSocket as a plain socket, of which a test can read exactly as much as it wants."""
    found = sockets.socket()
    found.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 65_536)
    found.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(found, ("127.0.0.1", publisher.websocket.port))
    key = base64.b64encode(bytes(16)).decode()
    await loop.sock_sendall(
        found,
        b"GET /connection/websocket HTTP/1.1\r\nHost: localhost\r\n"
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n" % key.encode(),
    )
    payload = write(JSON, {"id": 1, "connect": {}}, *commands).ljust(126)  # a length in two bytes
    await loop.sock_sendall(found, b"\x81\xfe%b%b%b" % (len(payload).to_bytes(2, "big"), bytes(4), payload))
    async with asyncio.timeout(WAIT):
        while b'"connect"' not in await loop.sock_recv(found, 65_536):
            pass
    return found


def taken(reader: sockets.socket, count: int) -> int:
    """Read at most this many bytes, without waiting."""
    got = 0
    with contextlib.suppress(BlockingIOError):
        while got < count:
            got += len(reader.recv(count - got))
    return got


def test_too_slow_reader_is_closed() -> None:
    """It takes some just when too much waits: the transport tells of that only once, and takes some off."""
    limit = 500_000

    async def scenario() -> None:
        async with serving(FakeView(), queue_bytes=limit) as publisher:
            with await opened(publisher) as reader:
                (connection,) = publisher.websocket.connections
                transport = connection._transport
                transport.get_extra_info("socket").setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, 65_536)
                while transport.get_write_buffer_size() < limit - 10_000:
                    connection.send(b"x" * 10_000)
                    await asyncio.sleep(0)
                connection.send(b"x" * 20_000)
                assert transport.get_write_buffer_size() > limit
                assert taken(reader, 100_000) > 60_000
                await asyncio.sleep(0)
                assert transport.get_write_buffer_size() < limit
                async with asyncio.timeout(WAIT):
                    while not publisher.stats.slow:
                        connection.send(b"x" * 1_000)
                        assert transport.get_write_buffer_size() < 2 * limit
                        await asyncio.sleep(0.001)
            assert publisher.stats.closes == {3008: 1}

    uvloop.run(scenario())


def test_limit_is_lowered_when_the_state_is_read() -> None:
    limit = 100_000

    async def scenario() -> None:
        async with serving(FakeView(), queue_bytes=limit) as publisher:
            with await opened(publisher) as reader:
                (connection,) = publisher.websocket.connections
                for _ in range(3):  # as a client that asks for its history again and again
                    connection.send_state(b"x" * 5_000_000)
                    assert connection.send_buffer.waiting > limit
                    async with asyncio.timeout(WAIT):
                        while connection.send_buffer.waiting:
                            taken(reader, 1_000_000)
                            await asyncio.sleep(0)
                    await until(lambda: connection.send_buffer._allowed == limit)
                assert not publisher.stats.slow
                async with asyncio.timeout(WAIT):
                    while not publisher.stats.slow:
                        connection.send(b"x" * 10_000)
                        assert connection.send_buffer.waiting < 3 * limit
                        await asyncio.sleep(0)

    uvloop.run(scenario())


SUBSCRIBE = {"id": 2, "subscribe": {"channel": VIEW}}


def large() -> FakeView:
    """A view of 6 million bytes: more than the kernel takes for a reader that does not read."""
    fake_view = FakeView()
    for n in range(60):
        fake_view.put((f"k{n}", {"filler": "x" * 100_000}))
    return fake_view


def waiting(publisher: PublisherServer) -> int:
    return sum(connection.send_buffer.waiting for connection in publisher.websocket.connections)


def test_unread_states_are_bounded_and_their_readers_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distributary.publisher.hub.state_budget.STALL_SECONDS", 0.5)
    monkeypatch.setattr("distributary.publisher.hub.state_budget.TURN_TIMEOUT", WAIT)

    async def scenario() -> None:
        async with serving(large(), queue_bytes=65_536, state_bytes=13_000_000) as publisher:
            with contextlib.ExitStack() as exits:
                for _ in range(6):
                    exits.enter_context(await opened(publisher, SUBSCRIBE))
                await until(lambda: publisher.hub.budget.waiting)
                most = 0
                async with asyncio.timeout(WAIT), raw(publisher) as client:
                    await client.connect()
                    joining = asyncio.create_task(client.ask(2, subscribe={"channel": VIEW}))
                    while not joining.done():
                        most = max(most, waiting(publisher))
                        await asyncio.sleep(0.01)
                    assert len(joining.result()["subscribe"]["data"]["rows"]) == 60
                assert most < 20_000_000, "of 42 million that were asked for"
                await until(lambda: publisher.stats.closes.get(3008) == 6)
                assert publisher.stats.slow == 6
            await until(lambda: not publisher.hub.budget.used)

    uvloop.run(scenario())


def test_reader_on_a_slow_link_is_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.publisher.hub.state_budget.STALL_SECONDS", 1.0)

    async def scenario() -> None:
        async with serving(large(), queue_bytes=65_536) as publisher:
            listening = publisher.websocket._server
            assert listening is not None
            listening.sockets[0].setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, 65_536)
            with await opened(publisher, SUBSCRIBE) as reader:
                await until(lambda: publisher.hub.budget.used)
                async with asyncio.timeout(3 * WAIT):
                    while publisher.hub.budget.used:
                        taken(reader, 100_000)
                        await asyncio.sleep(0.05)  # the link's rate
                assert publisher.stats.slow == 0

    uvloop.run(scenario())
