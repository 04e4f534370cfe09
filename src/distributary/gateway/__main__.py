"""``python -m distributary.gateway``: the gateway as a process, of a stack or by itself."""

from __future__ import annotations

import sys

from aiohttp import web

from distributary.auth import check_exposure
from distributary.auth.token_issuer import ensure_token
from distributary.config import Config, load
from distributary.config.embedded_defaults import with_embedded
from distributary.gateway.gateway_app import make_app
from distributary.httpd.certificates import reload_on_hangup
from distributary.httpd.listener import Listener
from distributary.service import Announce, Service, run_service
from distributary.store.store_factory import open_reader

_STOP_SECONDS = 2.0


async def serve(config: Config, announce: Announce | None = None) -> None:
    """Serve until SIGTERM or SIGINT; ``announce`` replaces the ready line."""
    check_exposure(config)
    service = Service("gateway", announce)
    ensure_token(config.data_dir)
    reader = open_reader(config.store.addresses)
    listener = await listen(make_app(config, reader), config)
    try:
        reload_on_hangup(listener.certificates)
        await service.run({"http": listener.url})
    finally:
        await listener.stop()
        await reader.close()


async def listen(app: web.Application, config: Config, port: int | None = None) -> Listener:
    """Start to serve on the configured address (``port`` 0: any free one); raises PortTaken."""
    listener = Listener(
        app,
        config.gateway,
        server="the gateway",
        setting="gateway.port",
        stop_seconds=_STOP_SECONDS,
        handler_cancellation=True,
    )
    await listener.start(config.gateway.port if port is None else port)
    return listener


def main() -> int:
    """Run; returns the exit code."""
    return run_service(lambda: serve(with_embedded(load(required=False))))


if __name__ == "__main__":
    sys.exit(main())
