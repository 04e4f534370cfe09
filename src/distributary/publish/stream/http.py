"""The publisher's HTTP side: event streams, health, figures, and the page."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
import re
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.config import Config
from distributary.config.sections import Publisher
from distributary.permit import origin_allowed
from distributary.publish import figures
from distributary.publish.access.door import Door
from distributary.publish.connection.websocket import port_taken
from distributary.publish.hub import peers
from distributary.publish.hub.hub import Hub
from distributary.publish.stats import Stats
from distributary.publish.stream.access import Access
from distributary.publish.stream.sse import Events

log = logging.getLogger(__name__)

READY_TIMEOUT = 5.0
_FILE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")


class HttpServer:
    """Listens on the HTTP port."""

    def __init__(
        self, hub: Hub, settings: Publisher, stats: Stats, id: str, door: Door | None = None
    ) -> None:
        self._hub = hub
        self._door = door or Door(Config(), hub.store)
        self._settings = settings
        self._stats = stats
        self._id = id
        self._events = Events(hub, stats, queue_bytes=settings.queue_bytes, door=self._door)
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.beat: Mapping[str, Any] | None = None

    def app(self) -> web.Application:
        """Make the application."""
        app = web.Application(middlewares=[self._origin, Access(self._door, self._stats).permitted])
        app.on_response_prepare.append(self._allow)
        app.router.add_get("/v1/views/{view}/events", self._events.handle, allow_head=False)
        app.router.add_get("/v1/stats", self._describe)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/", self._page)
        app.router.add_get("/{file}", self._page)
        return app

    async def start(self, *, port: int | None = None, share: bool = False) -> None:
        """Listen. Raises PortTaken."""
        wanted = self._settings.http_port if port is None else port
        self._runner = web.AppRunner(
            self.app(), handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._settings.host, wanted, reuse_port=share or None)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise port_taken(self._settings.host, wanted, "publisher.http_port", error) from None
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """End the streams and stop listening."""
        self._events.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _origin(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._allowed(request):
            self._stats.refused_origins += 1
            message = "this origin may not read from here"
            hint = "name it in publisher.origins of the configuration"
            body = {"code": "origin-refused", "message": message, "hint": hint, "retry": False}
            return web.json_response({"error": body}, status=403)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return web.Response(
                status=204,
                headers={
                    "Access-Control-Allow-Methods": "GET",
                    "Access-Control-Allow-Headers": "Last-Event-ID, Cache-Control, Authorization, X-API-Key",
                    "Access-Control-Max-Age": "600",
                },
            )
        return await handler(request)

    async def _allow(self, request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and self._allowed(request):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers.add("Vary", "Origin")

    def _allowed(self, request: web.Request) -> bool:
        return origin_allowed(request.headers.get("Origin"), request.host, self._settings.origins)

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                await self._hub.store.views()
        except Exception as error:
            said = f"the store does not answer ({error or type(error).__name__})"
            body = {"code": "store-unavailable", "message": said, "hint": "", "retry": True}
            return web.json_response({"error": body}, status=503, headers={"Retry-After": "1"})
        return web.json_response({"status": "ok", "store": "ok"})

    async def _describe(self, request: web.Request) -> web.Response:
        return web.json_response(figures.describe(self._hub, self._stats, self._id))

    async def _metrics(self, request: web.Request) -> web.Response:
        text = figures.prometheus(await self._told())
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _told(self) -> list[Mapping[str, Any]]:
        """What all processes of this port say of themselves."""
        if self._settings.processes == 1:
            return [figures.told(self._hub, self._stats, self._id)]
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                found = await peers.heard(self._hub.store, peers.place_of(self.port))
        except Exception as error:
            log.warning("the store does not tell of the other processes (%s)", error or type(error).__name__)
            found = {}
        found.setdefault(self._id, self.beat or figures.told(self._hub, self._stats, self._id))
        return list(found.values())

    async def _page(self, request: web.Request) -> web.Response:
        name = request.match_info.get("file") or "index.html"
        found = _page_file(name)
        if found is None:
            raise web.HTTPNotFound(text=f"there is no {request.path} here\n")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return web.Response(
            body=found.read_bytes(),
            headers={
                "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
                "Cache-Control": "no-cache",
                "X-Content-Type-Options": "nosniff",
            },
        )


def _page_file(name: str) -> Traversable | None:
    """Find a file of the page; only plain names, and no code."""
    if not _FILE.fullmatch(name) or name.endswith(".py"):
        return None
    found = resources.files("distributary.demo").joinpath("page", name)
    return found if found.is_file() else None
