"""``python -m distributary.socketio_gateway``: the socket.io gateway as a process of a stack."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from distributary.auth import check_exposure
from distributary.config import Config, load
from distributary.errors import CommandMissing
from distributary.httpd.certificates import reload_on_hangup
from distributary.httpd.listener import callable_host
from distributary.model.endpoints import websocket_url
from distributary.service import Service, run_service

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
    """Serve until SIGTERM or SIGINT. Raises CommandMissing, PortTaken."""
    try:
        from distributary.socketio_gateway.socketio_server import SocketioGateway
    except ModuleNotFoundError as error:
        if error.name not in ("socketio", "engineio"):
            raise
        raise NEEDS from None
    check_exposure(config)
    service = Service("socketio")
    gateway = SocketioGateway(config.socketio, config.publisher, publishers)
    await gateway.start()
    try:
        reload_on_hangup(gateway.certificates)
        await service.run({"socketio": gateway.url})
    finally:
        await gateway.stop()


async def _serve() -> None:
    config = load(required=False)
    await serve(config, publishers_of(config))


def main() -> int:
    """Run; returns the exit code."""
    return run_service(_serve)


if __name__ == "__main__":
    sys.exit(main())
