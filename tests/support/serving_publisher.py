"""A publisher on real sockets over the store in memory, and a WebSocket client for tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import websockets

from distributary.config import Auth, Config
from distributary.config.sections import Limits
from distributary.config.server_sections import Publisher
from distributary.publisher.access_control import AccessControl
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.publisher_server import PublisherServer
from distributary.publisher.websocket.client_publish import ClientPublisher
from distributary.store.contract import ReaderStore
from tests.support.clock import LIMIT
from tests.support.fake_view import FakeView
from tests.support.wire_formats import read, write

WAIT = 10 * LIMIT


@asynccontextmanager
async def serving(
    fake_view: FakeView,
    *,
    client_publisher: ClientPublisher | None = None,
    auth: Auth | None = None,
    reader: ReaderStore | None = None,
    data_dir: Path | None = None,
    limits: Limits | None = None,
    **settings: Any,
) -> AsyncIterator[PublisherServer]:
    """Run a publisher on free ports; ``reader`` is that of another store than the fake view's."""
    store = reader or fake_view.reader
    config = Config(auth=auth or Auth(), data_dir=data_dir or Path("/nowhere"), limits=limits or Limits())
    access = AccessControl(config, store) if auth is not None else None
    publisher = PublisherServer(
        store, Publisher(**settings), ttl=60, client_publisher=client_publisher, access=access
    )
    await publisher.start(port=0, http_port=0)
    running = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await publisher.stop()


class Raw:
    """A client that speaks the protocol by hand."""

    def __init__(self, socket: websockets.ClientConnection, codec: Codec = JSON) -> None:
        self.socket = socket
        self._codec = codec
        self._lines: list[dict[str, Any]] = []

    async def send(self, *commands: dict[str, Any]) -> None:
        message = write(self._codec, *commands)
        await self.socket.send(message, text=not self._codec.binary)

    async def next(self) -> dict[str, Any]:
        """Give the next message that is not a ping; pings are answered."""
        async with asyncio.timeout(WAIT):
            while True:
                while not self._lines:
                    message = await self.socket.recv(decode=False)
                    self._lines = read(self._codec, message)
                found = self._lines.pop(0)
                if found:
                    return found
                await self.send({})

    async def closed(self) -> tuple[int, str]:
        """Read on until the close; give its code and reason."""
        async with asyncio.timeout(WAIT):
            with contextlib.suppress(websockets.ConnectionClosed):
                while True:
                    await self.socket.recv()
        return self.socket.close_code or 0, self.socket.close_reason or ""

    async def connect(self, token: str = "") -> dict[str, Any]:
        """Connect; return the reply."""
        await self.send({"id": 1, "connect": {"token": token} if token else {}})
        reply = await self.next()
        assert "connect" in reply, reply
        found: dict[str, Any] = reply["connect"]
        return found

    async def ask(self, id: int, **command: Any) -> dict[str, Any]:
        """Send a command and give the next message."""
        await self.send({"id": id, **command})
        return await self.next()


@asynccontextmanager
async def raw(publisher: PublisherServer, codec: Codec = JSON, **more: Any) -> AsyncIterator[Raw]:
    """Open a WebSocket."""
    url = publisher.addresses["websocket"]
    if codec.binary:
        more.setdefault("subprotocols", [codec.subprotocol])
    async with websockets.connect(url, max_size=None, proxy=None, **more) as socket:
        yield Raw(socket, codec)
