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

from distributary.config import Config, load
from distributary.config.embedded import with_embedded
from distributary.errors import DistributaryError, PortTaken
from distributary.gateway.app import make_app
from distributary.heartbeat import Heartbeat
from distributary.permit import check_exposure
from distributary.store.shards import open_reader

_STOP_SECONDS = 2.0


async def serve(config: Config, say: Callable[[dict[str, str]], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; tells ``say`` (else stdout, for the supervisor) when it is ready."""
    check_exposure(config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    reader = open_reader(config.store.addresses)
    runner = await listen(make_app(config, reader.revoked), config)
    try:
        host, port = config.gateway.host, runner.addresses[0][1]
        addresses = {"http": f"http://{f'[{host}]' if ':' in host else host}:{port}"}
        beating = asyncio.create_task(Heartbeat.of_process().run())
        (say or _announce)(addresses)
        await stop.wait()
        beating.cancel()
    finally:
        await runner.cleanup()
        await reader.close()


def _announce(addresses: dict[str, str]) -> None:
    print(json.dumps({"ready": True, "part": "gateway", "addresses": addresses}), flush=True)


async def listen(app: web.Application, config: Config, port: int | None = None) -> web.AppRunner:
    """Start to serve on the configured address (``port`` 0: any free one); raises PortTaken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS, handler_cancellation=True)
    await runner.setup()
    host, wanted = config.gateway.host, config.gateway.port if port is None else port
    try:
        await web.TCPSite(runner, host, wanted).start()
    except OSError as error:
        await runner.cleanup()
        raise PortTaken(
            f"the gateway cannot listen on {host}:{wanted}: {error.strerror}",
            hint="set gateway.port to a free port",
        ) from None
    return runner


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
