"""A small application behind the listener of all servers, and clients that speak HTTP by hand."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from aiohttp import web

from distributary.config import Control
from distributary.httpd.connection_handler import expect_stream
from distributary.httpd.connection_limits import Connections
from distributary.httpd.listener import Listener
from tests.support.clock import LIMIT

WAIT = 10 * LIMIT
BIG = b"x" * 20_000_000


def on_uvloop(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on the loop that the servers run on: transports differ in what they report."""

    @functools.wraps(scenario)
    def run(*args: Any, **more: Any) -> None:
        uvloop.run(scenario(*args, **more))

    return run


async def hello(request: web.Request) -> web.Response:
    return web.json_response({"hello": request.path})


async def upload(request: web.Request) -> web.Response:
    return web.json_response({"size": len(await request.read())})


async def records(request: web.Request) -> web.StreamResponse:
    expect_stream(request, 0.5)
    size = 0
    while data := await request.content.readany():
        size += len(data)
    return web.json_response({"size": size})


async def unread(request: web.Request) -> web.Response:
    """Begin to read only after a while: what waits until then is not the client's fault."""
    await asyncio.sleep(1.0)
    return web.json_response({"size": len(await request.read())})


async def ignored(request: web.Request) -> web.Response:
    return web.json_response({"read": 0})


async def big(request: web.Request) -> web.Response:
    return web.Response(body=BIG)


async def middling(request: web.Request) -> web.Response:
    return web.Response(body=b"x" * 50_000)


async def events(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse()
    await reply.prepare(request)
    while True:
        await reply.write(b"x" * 100_000)


async def chat(request: web.Request) -> web.WebSocketResponse:
    talk = web.WebSocketResponse()
    await talk.prepare(request)
    async for message in talk:
        await talk.send_str(message.data)
    return talk


@asynccontextmanager
async def serving(
    *, exempt_loopback: bool = True, send_buffer: int = 0, **settings: Any
) -> AsyncIterator[Listener]:
    """Serve on a free port; ``send_buffer`` is what the kernel takes of a reply that nobody reads."""
    app = web.Application(client_max_size=50_000_000)
    app.add_routes(
        [
            web.get("/", hello),
            web.post("/upload", upload),
            web.post("/records", records),
            web.post("/unread", unread),
            web.post("/ignored", ignored),
            web.get("/big", big),
            web.get("/middling", middling),
            web.get("/events", events),
            web.get("/chat", chat),
        ]
    )
    control = Control(**settings)
    tally = Connections(control, exempt_loopback=exempt_loopback)
    listener = Listener(
        app,
        control,
        server="the test",
        setting="control.port",
        stop_seconds=1.0,
        tally=tally,
        handler_cancellation=True,
    )
    await listener.start(0)
    try:
        _shrink(listener, send_buffer)
        yield listener
    finally:
        await listener.stop()


def _shrink(listener: Listener, size: int) -> None:
    """Set how much the kernel takes for each connection, which inherits it from the listening socket."""
    for site in listener._runner.sites if size else ():
        server: Any = site._server
        for one in server.sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


@asynccontextmanager
async def connected(
    listener: Listener, source: str = "127.0.0.1", *, small: bool = False
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect from an address of this machine; ``small``: with as little room for replies as can be."""
    sock = socket.socket()
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.bind((source, 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", listener.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=4096 if small else 2**20)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Read until the other side closes."""
    found = b""
    async with asyncio.timeout(WAIT):
        try:
            while data := await reader.read(65_536):
                found += data
        except ConnectionError:
            pass
    return found


async def reply(reader: asyncio.StreamReader) -> bytes:
    """Read one reply that has a length; gives its body."""
    async with asyncio.timeout(WAIT):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await reader.readexactly(size)
