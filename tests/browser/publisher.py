"""A stand-in for the publisher's HTTP port: serves the page, and sends what the test says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from distributary.demo.page import PAGE_FILES, PAGE_FOLDER
from tests.support.clock import LIMIT

WAIT = 15 * LIMIT


@dataclass
class Listener:
    """One open event stream."""

    view: str
    where: str
    last_event_id: str
    response: web.StreamResponse
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, event: str, data: dict[str, Any], id: str = "") -> None:
        """Send one event, as the publisher frames them."""
        head = f"id: {id}\n" if id else ""
        await self.response.write(f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode())

    async def snapshot(self, rows: dict[str, dict[str, Any]], position: str, **more: Any) -> None:
        """Send all rows at once, and say that they are all."""
        await self.send("snapshot", {"op": "snapshot", "rows": list(rows.items()), **more})
        await self.send("ready", {"op": "ready", "position": position}, position)

    def drop(self) -> None:
        """End the connection, as a lost network or a restarted publisher would."""
        self.closed.set()


class Publisher:
    """Serves the page; every event stream that a page opens waits in ``next``."""

    def __init__(self) -> None:
        self.url = ""
        self.refuse = 0  # how many of the next streams get a 503
        self._opened: asyncio.Queue[Listener] = asyncio.Queue()
        self._listeners: list[Listener] = []
        app = web.Application()
        app.router.add_get("/", self._index)
        for name in PAGE_FILES:
            app.router.add_get(f"/{name}", self._file)
        app.router.add_get("/v1/views/{view}/events", self._events)
        self._runner = web.AppRunner(app, shutdown_timeout=1.0)

    async def __aenter__(self) -> Publisher:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        return self

    async def __aexit__(self, *error: object) -> None:
        for listener in self._listeners:
            listener.drop()
        await self._runner.cleanup()

    async def any(self) -> Listener:
        """Wait for the next stream."""
        async with asyncio.timeout(WAIT):
            return await self._opened.get()

    async def next(self, view: str) -> Listener:
        """Wait for the next stream, which must be of that view."""
        listener = await self.any()
        assert listener.view == view
        return listener

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE_FOLDER / "index.html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE_FOLDER / request.path.strip("/"))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self.refuse:
            self.refuse -= 1
            return web.Response(status=503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 50\n\n")
        listener = Listener(
            request.match_info["view"],
            request.query.get("where", ""),
            request.headers.get("Last-Event-ID", ""),
            response,
        )
        self._listeners.append(listener)
        self._opened.put_nowait(listener)
        await listener.closed.wait()
        return response
