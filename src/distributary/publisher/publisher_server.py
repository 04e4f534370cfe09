"""A publisher: one process that serves subscribers from the store."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from urllib.parse import urlsplit

from distributary.config import Config
from distributary.config.server_sections import Publisher
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_limits import Connections
from distributary.httpd.listener import callable_host
from distributary.publisher import metrics
from distributary.publisher.access_control import AccessControl
from distributary.publisher.http.http_server import HttpServer
from distributary.publisher.hub.hub import Hub
from distributary.publisher.hub.maintenance import Maintenance
from distributary.publisher.hub.resume import ChangedKeys
from distributary.publisher.hub.subscription_end import Announce
from distributary.publisher.metrics import Counters
from distributary.publisher.websocket.client_publish import ClientPublisher
from distributary.publisher.websocket.websocket_server import PATH, WebSocketServer
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

HEARTBEAT = 2.0


class PublisherServer:
    """Starts, runs and stops everything in one publisher process."""

    def __init__(
        self,
        store: ReaderStore,
        settings: Publisher,
        *,
        ttl: float,
        announce: Announce | None = None,
        client_publisher: ClientPublisher | None = None,
        changed_keys: ChangedKeys | None = None,
        access: AccessControl | None = None,
    ) -> None:
        self.access = access or AccessControl(Config(), store)
        self.id = uuid.uuid4().hex[:12]
        self.tally = Connections(settings)
        self.certificates = Certificates(settings, "publisher")
        self.stats = Counters(self.tally)
        self.hub = Hub(
            store,
            ttl=ttl,
            buffer_bytes=settings.queue_bytes,
            stats=self.stats,
            announce=announce,
            changed_keys=changed_keys,
            max_materialized_rows=settings.max_materialized_rows,
            max_limit=settings.max_limit,
            state_bytes=settings.state_bytes,
            limits=self.access.limits,
        )
        self.websocket = WebSocketServer(
            self.hub,
            settings,
            self.stats,
            client_publisher=client_publisher,
            access=self.access,
            tally=self.tally,
            certificates=self.certificates,
        )
        self.http = HttpServer(
            self.hub,
            settings,
            self.stats,
            self.id,
            access=self.access,
            tally=self.tally,
            certificates=self.certificates,
        )
        self.maintenance = Maintenance(self.hub)
        self._settings = settings
        self._store = store

    async def start(self, *, port: int | None = None, http_port: int | None = None) -> None:
        """Listen on both ports; given ones override the configuration (0: any free one). Raises PortTaken."""
        share = self._settings.processes > 1
        await self.websocket.start(port=port, share=share)
        try:
            await self.http.start(port=http_port, share=share)
        except BaseException:
            await self.websocket.stop()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of both ports, as subscribers reach them."""
        host, settings = callable_host(self._settings.host), self._settings
        advertised = urlsplit(self._settings.advertised_url)
        websocket = f"{settings.websocket_scheme}://{host}:{self.websocket.port}{PATH}"
        if advertised.netloc:
            scheme = {"https": "wss", "http": "ws"}.get(advertised.scheme, advertised.scheme)
            websocket = f"{scheme}://{advertised.netloc}{advertised.path.rstrip('/') or PATH}"
        return {"websocket": websocket, "http": f"{settings.http_scheme}://{host}:{self.http.port}"}

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.websocket.run())
            group.create_task(self.maintenance.run())
            group.create_task(self.access.sessions.run())
            group.create_task(self.access.limiter.reservations.run())
            group.create_task(self._heartbeat())

    async def stop(self) -> None:
        """Tell all subscribers to reconnect, and close."""
        await self.websocket.stop()
        await self.http.stop()
        await self.hub.close()

    async def _heartbeat(self) -> None:
        while True:
            try:
                stats = metrics.full_stats(self.hub, self.stats, self.id) | self.addresses
                stats["endpoint"] = metrics.shared_endpoint(self.http.port)
                await self._store.heartbeat("publisher", self.id, json.dumps(stats))
                self.http.heartbeat = stats
            except Exception as error:
                log.warning("cannot write the heartbeat to the store (%s)", error or type(error).__name__)
            await asyncio.sleep(HEARTBEAT)
