"""``python -m distributary.gateway``: the gateway as a process, of a stack or by itself."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable

import uvloop
from aiohttp import web

from distributary.auth import check_exposure
from distributary.auth.stack_token import ensure_token
from distributary.config import Config, load
from distributary.config.embedded_defaults import with_embedded
from distributary.errors import DistributaryError
from distributary.gateway.gateway_app import make_app
from distributary.httpd.certificates import reload_on_hangup
from distributary.httpd.listener import Listener
from distributary.service import Heartbeat
from distributary.store.store_factory import open_reader

_STOP_SECONDS = 2.0


async def serve(config: Config, say: Callable[[dict[str, str]], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; tells ``say`` (else stdout, for the supervisor) when it is ready."""
    check_exposure(config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ensure_token(config.data_dir)
    reader = open_reader(config.store.addresses)
    listener = await listen(make_app(config, reader), config)
    try:
        reload_on_hangup(listener.certificates)
        addresses = {"http": listener.url}
        beating = asyncio.create_task(Heartbeat.of_process().run())
        (say or _announce)(addresses)
        await stop.wait()
        beating.cancel()
    finally:
        await listener.stop()
        await reader.close()


def _announce(addresses: dict[str, str]) -> None:
    print(json.dumps({"ready": True, "part": "gateway", "addresses": addresses}), flush=True)


async def listen(app: web.Application, config: Config, port: int | None = None) -> Listener:
    """Start to serve on the configured address (``port`` 0: any free one); raises PortTaken."""
    listener = Listener(
        app,
        config.gateway,
        part="the gateway",
        setting="gateway.port",
        stop_seconds=_STOP_SECONDS,
        handler_cancellation=True,
    )
    await listener.start(config.gateway.port if port is None else port)
    return listener


def main() -> int:
    """Run; a DistributaryError is one line on stderr and exit status 1."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        uvloop.run(serve(with_embedded(load(required=False))))
    except DistributaryError as error:
        print(f"distributary.gateway: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
