"""``python -m distributary.socketio_gateway``: the socket.io gateway as a process of a stack."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence

import uvloop

from distributary.auth import check_exposure
from distributary.config import Config, load
from distributary.errors import CommandMissing, DistributaryError
from distributary.httpd.certificates import reload_on_hangup
from distributary.httpd.listener import callable_host
from distributary.service import Heartbeat
from distributary.subscriber.discovery import websocket_url

NEEDS = CommandMissing(
    'the socket.io gateway needs the package "python-socketio", which is not installed',
    hint="Install it: pip install 'distributary[socketio]'",
)


def publishers_of(config: Config) -> list[str]:
    """The publishers to use: those that are configured, else the one of the stack."""
    if config.socketio.publishers:
        return [websocket_url(one) for one in config.socketio.publishers]
    at = config.publisher
    return [websocket_url(f"{at.websocket_scheme}://{callable_host(at.host)}:{at.port}")]


async def serve(config: Config, publishers: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT; says on stdout when it is ready. Raises CommandMissing, PortTaken."""
    try:
        from distributary.socketio_gateway.socketio_server import Gateway
    except ModuleNotFoundError as error:
        if error.name not in ("socketio", "engineio"):
            raise
        raise NEEDS from None
    check_exposure(config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    gateway = Gateway(config.socketio, config.publisher, publishers)
    await gateway.start()
    try:
        reload_on_hangup(gateway.certificates)
        addresses = {"socketio": gateway.url}
        beating = asyncio.create_task(Heartbeat.of_process().run())
        print(json.dumps({"ready": True, "part": "socketio", "addresses": addresses}), flush=True)
        await stop.wait()
        beating.cancel()
    finally:
        await gateway.stop()


def main() -> int:
    """Run; a DistributaryError is one line on stderr and exit status 1."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        config = load(env=os.environ, required=False)
        uvloop.run(serve(config, publishers_of(config)))
    except DistributaryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
