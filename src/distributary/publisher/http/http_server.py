"""The publisher's HTTP side: event streams, health, metrics, and the files of a page."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.config import Config
from distributary.config.sections import Publisher
from distributary.errors import HostRefused, OriginRefused
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_limits import Connections
from distributary.httpd.cors import PageRules
from distributary.httpd.listener import Listener
from distributary.httpd.request_audit import audited
from distributary.httpd.response_headers import add_safe_headers
from distributary.publisher import metrics
from distributary.publisher.access_control import Door
from distributary.publisher.http.event_stream import Events
from distributary.publisher.http.stream_access import Access, attempt
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Stats

log = logging.getLogger(__name__)

READY_TIMEOUT = 5.0
_ALLOWED: web.RequestKey[str] = web.RequestKey("allowed", str)
"""The origin of a page that may read the reply."""


class HttpServer:
    """Listens on the HTTP port."""

    def __init__(
        self,
        hub: Hub,
        settings: Publisher,
        stats: Stats,
        id: str,
        door: Door | None = None,
        tally: Connections | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self._hub = hub
        self._door = door or Door(Config(), hub.store)
        self._settings = settings
        self._pages = PageRules("publisher", settings)
        self._stats = stats
        self._id = id
        self._events = Events(hub, stats, queue_bytes=settings.queue_bytes, door=self._door)
        self._tally = tally or Connections(settings)
        self._certificates = certificates
        self._listener: Listener | None = None
        self.port = 0
        self.beat: Mapping[str, Any] | None = None

    def app(self) -> web.Application:
        """Make the application."""
        noted = audited(self._door.audit, attempt)
        app = web.Application(middlewares=[noted, self._origin, Access(self._door, self._stats).permitted])
        app.on_response_prepare.extend((self._allow, add_safe_headers))
        app.router.add_get("/v1/views/{view}/events", self._events.handle, allow_head=False)
        app.router.add_get("/v1/stats", self._describe)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/", self._static_file)
        app.router.add_get("/{file}", self._static_file)
        return app

    async def start(self, *, port: int | None = None, share: bool = False) -> None:
        """Listen. Raises PortTaken."""
        wanted = self._settings.http_port if port is None else port
        self._listener = Listener(
            self.app(),
            self._settings,
            part="the publisher",
            setting="publisher.http_port",
            stop_seconds=1.0,
            tally=self._tally,
            certificates=self._certificates,
            handler_cancellation=True,
        )
        await self._listener.start(wanted, share=share)
        self.port = self._listener.port

    async def stop(self) -> None:
        """End the streams and stop listening."""
        self._events.stop()
        if self._listener is not None:
            await self._listener.stop()

    @web.middleware
    async def _origin(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._pages.check(request.headers)
        except (HostRefused, OriginRefused) as error:
            self._stats.refused_origins += isinstance(error, OriginRefused)
            body = {"code": error.code, "message": error.message, "hint": error.hint, "retry": False}
            return web.json_response({"error": body}, status=421 if isinstance(error, HostRefused) else 403)
        if "Origin" in request.headers:
            request[_ALLOWED] = request.headers["Origin"]
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
        origin = request.get(_ALLOWED)
        if origin is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers.add("Vary", "Origin")

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
        return web.json_response(metrics.describe(self._hub, self._stats, self._id))

    async def _metrics(self, request: web.Request) -> web.Response:
        text = metrics.prometheus(await self._told())
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _told(self) -> list[Mapping[str, Any]]:
        """What all processes of this port say of themselves."""
        if self._settings.processes == 1:
            return [metrics.told(self._hub, self._stats, self._id)]
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                found = await metrics.heard(self._hub.store, metrics.place_of(self.port))
        except Exception as error:
            log.warning("the store does not tell of the other processes (%s)", error or type(error).__name__)
            found = {}
        found.setdefault(self._id, self.beat or metrics.told(self._hub, self._stats, self._id))
        return list(found.values())

    async def _static_file(self, request: web.Request) -> web.Response:
        """A file of `publisher.static_dir`; `index.html` at `/`."""
        name = request.match_info.get("file") or "index.html"
        file = self._find_static_file(name)
        if file is None:
            raise web.HTTPNotFound(text=f"there is no {request.path} here\n")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return web.Response(
            body=file.read_bytes(),
            headers={
                "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
                "Cache-Control": "no-cache",
                # The page says itself what it may load and run.
                "Content-Security-Policy": "frame-ancestors 'none'",
            },
        )

    def _find_static_file(self, name: str) -> Path | None:
        """Find a file by its name. The name is untrusted, so it is compared and never made a path."""
        folder = Path(self._settings.static_dir)
        if not self._settings.static_dir or not folder.is_dir() or name.endswith(".py"):
            return None
        return next((one for one in folder.iterdir() if one.name == name and one.is_file()), None)
