"""A publisher: one process that serves subscribers from the store."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from urllib.parse import urlsplit

from distributary.config import Config
from distributary.config.server_sections import Publisher as Settings
from distributary.httpd.certificates import Certificates
from distributary.httpd.connection_limits import Connections
from distributary.httpd.listener import callable_host
from distributary.publisher import metrics
from distributary.publisher.access_control import Door
from distributary.publisher.http.http_server import HttpServer
from distributary.publisher.hub.catch_up import Touched
from distributary.publisher.hub.hub import Announce, Hub
from distributary.publisher.hub.maintenance import Upkeep
from distributary.publisher.metrics import Stats
from distributary.publisher.websocket.client_publish import Inlet
from distributary.publisher.websocket.websocket_server import PATH, WebSocketServer
from distributary.store.contract import ReaderStore

log = logging.getLogger(__name__)

BEAT = 2.0


class Publisher:
    """Starts, runs and stops all parts of one publisher process."""

    def __init__(
        self,
        store: ReaderStore,
        settings: Settings,
        *,
        ttl: float,
        announce: Announce | None = None,
        inlet: Inlet | None = None,
        replay: Touched | None = None,
        door: Door | None = None,
    ) -> None:
        self.door = door or Door(Config(), store)
        self.id = uuid.uuid4().hex[:12]
        self.tally = Connections(settings)
        self.certificates = Certificates(settings, "publisher")
        self.stats = Stats(self.tally)
        self.hub = Hub(
            store,
            ttl=ttl,
            hold_bytes=settings.queue_bytes,
            stats=self.stats,
            announce=announce,
            replay=replay,
            max_materialized_rows=settings.max_materialized_rows,
            max_limit=settings.max_limit,
            state_bytes=settings.state_bytes,
            limits=self.door.limits,
        )
        ports = (self.door, self.tally, self.certificates)
        self.websocket = WebSocketServer(self.hub, settings, self.stats, inlet, *ports)
        self.http = HttpServer(self.hub, settings, self.stats, self.id, *ports)
        self.upkeep = Upkeep(self.hub)
        self._settings = settings
        self._store = store

    async def start(self, *, port: int | None = None, http_port: int | None = None) -> None:
        """Listen on both ports; given ones stand over the configured (0: any free one). Raises PortTaken."""
        share = self._settings.processes > 1
        await self.websocket.start(port=port, share=share)
        try:
            await self.http.start(port=http_port, share=share)
        except BaseException:
            await self.websocket.stop()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """Where subscribers find it."""
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
            group.create_task(self.upkeep.run())
            group.create_task(self.door.roll.run())
            group.create_task(self.door.limiter.reservations.run())
            group.create_task(self._beat())

    async def stop(self) -> None:
        """Tell all subscribers to come back, and close."""
        await self.websocket.stop()
        await self.http.stop()
        await self.hub.close()

    async def _beat(self) -> None:
        while True:
            try:
                said = metrics.told(self.hub, self.stats, self.id) | self.addresses
                said["place"] = metrics.place_of(self.http.port)
                await self._store.heartbeat("publisher", self.id, json.dumps(said))
                self.http.beat = said
            except Exception as error:
                log.warning("the store does not take the heartbeat (%s)", error or type(error).__name__)
            await asyncio.sleep(BEAT)
