"""The publisher's HTTP side: event streams, health, metrics, and the files of a page."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from distributary.config import Config
from distributary.config.server_sections import Publisher
from distributary.errors import StoreUnavailable
from distributary.httpd.authorization import Requirement, Route
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_limits import Connections
from distributary.httpd.cors import Cors, OriginPolicy, add_security_headers
from distributary.httpd.listener import Listener
from distributary.httpd.prometheus_text import metrics_response
from distributary.httpd.request_audit import audit_middleware
from distributary.publisher import metrics
from distributary.publisher.access_control import AccessControl
from distributary.publisher.http.event_stream import EventStreams
from distributary.publisher.http.stream_access import ERRORS, STREAM, StreamAccess
from distributary.publisher.hub.hub import Hub
from distributary.publisher.metrics import Counters

log = logging.getLogger(__name__)

READY_TIMEOUT = 5.0


class HttpServer:
    """Listens on the HTTP port."""

    def __init__(
        self,
        hub: Hub,
        settings: Publisher,
        stats: Counters,
        id: str,
        *,
        access: AccessControl | None = None,
        tally: Connections | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self._hub = hub
        self._access = access or AccessControl(Config(), hub.store)
        self._settings = settings
        self._stats = stats
        self._id = id
        self._events = EventStreams(hub, stats, queue_bytes=settings.queue_bytes, access=self._access)
        self._tally = tally or Connections(settings)
        self._certificates = certificates
        self._listener: Listener | None = None
        self.port = 0
        self.heartbeat: Mapping[str, Any] | None = None

    def routes(self) -> list[Route]:
        """List all routes."""
        return [
            Route(
                "GET",
                STREAM,
                self._events.handle,
                Requirement.ROWS,
                "A view's rows and changes as server-sent events, or as lines of JSON "
                "with `Accept: application/x-ndjson`. Parameters: `where`, or `key` (repeated) "
                "or `keys` (separated by commas), or `subscription` (the id of one that the control API "
                "made); `fields` (only these); `from` (a position or a time: only what is newer); "
                "`order` and `limit`, `conflate`, `max_rate`, `max_bytes` and `slow` "
                "([how](../how-to/first-rows-and-conflation.md)); "
                "`last_event_id` where the header `Last-Event-ID` cannot be sent, and `token` where "
                "`Authorization` cannot. The events are described in "
                "[the protocol](protocol.md#server-sent-events).",
                allow_head=False,
            ),
            Route(
                "GET",
                "/v1/stats",
                self._describe,
                Requirement.READ,
                "What the publisher process that answers counts, as JSON.",
            ),
            Route(
                "GET",
                "/metrics",
                self._metrics,
                Requirement.READ,
                "Prometheus text: see [metrics](metrics.md).",
            ),
            Route("GET", "/healthz", self._health, Requirement.PUBLIC, "This process answers."),
            Route(
                "GET",
                "/readyz",
                self._ready,
                Requirement.PUBLIC,
                "The store answers too; 503 while it does not.",
            ),
            Route(
                "GET",
                "/",
                self._static_file,
                Requirement.PUBLIC,
                "The file `index.html` of `publisher.static_dir`.",
            ),
            Route(
                "GET", "/{file}", self._static_file, Requirement.PUBLIC, "A file of `publisher.static_dir`."
            ),
        ]

    def app(self) -> web.Application:
        """Create the application."""
        routes = self.routes()
        stream_access = StreamAccess(routes, self._access, self._stats)
        cors = Cors(
            OriginPolicy("publisher", self._settings),
            methods="GET",
            request_headers="Last-Event-ID, Cache-Control, Authorization, X-API-Key",
        )
        app = web.Application(
            middlewares=[
                audit_middleware(self._access.audit, stream_access.authorization.attempt),
                stream_access.count_refused_pages,
                cors.middleware,
                stream_access.authorize,
            ]
        )
        app.on_response_prepare.extend((cors.add_headers, add_security_headers))
        app.add_routes([route.definition() for route in routes])
        return app

    async def start(self, *, port: int | None = None, share: bool = False) -> None:
        """Listen. Raises PortTaken."""
        wanted = self._settings.http_port if port is None else port
        self._listener = Listener(
            self.app(),
            self._settings,
            server="the publisher",
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

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                await self._hub.store.views()
        except Exception as error:
            cause = error or type(error).__name__
            return ERRORS.response(StoreUnavailable(f"the store does not respond ({cause})"))
        return web.json_response({"status": "ok", "store": "ok"})

    async def _describe(self, request: web.Request) -> web.Response:
        return web.json_response(metrics.describe(self._hub, self._stats, self._id))

    async def _metrics(self, request: web.Request) -> web.Response:
        return metrics_response(metrics.families(await self._process_stats()))

    async def _process_stats(self) -> list[Mapping[str, Any]]:
        """Return the stats of all processes that share this port."""
        if self._settings.processes == 1:
            return [metrics.full_stats(self._hub, self._stats, self._id)]
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                found = await metrics.sibling_stats(self._hub.store, metrics.shared_endpoint(self.port))
        except Exception as error:
            log.warning("cannot read the stats of the other processes (%s)", error or type(error).__name__)
            found = {}
        found.setdefault(self._id, self.heartbeat or metrics.full_stats(self._hub, self._stats, self._id))
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
