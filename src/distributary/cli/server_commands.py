"""``distributary socketio``: give socket.io clients the streams of a running stack."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace

from distributary.cli.output import config_of

NAME = "socketio"
HELP = "run the socket.io gateway before a stack's publishers"
EXAMPLES = (
    "distributary socketio                                    before the stack of this folder",
    "distributary socketio --port 9003 --publisher wss://stream.example.com",
)

DEFAULT_PORT = 8003


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = (
        f"{parser.description}\nNeeds the extra: pip install 'distributary[socketio]'. "
        "With socketio.port set, `up` runs it too."
    )
    parser.add_argument("--host", help="the address to listen on (default: socketio.host)")
    parser.add_argument(
        "--port", type=int, help=f"the port to listen on (default: socketio.port, else {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--publisher",
        action="append",
        metavar="URL",
        help="a publisher's address; may be repeated (default: socketio.publishers, else the stack's)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    from distributary.cli.subscribe_command import publishers
    from distributary.socketio_gateway.__main__ import publishers_of, serve
    from distributary.subscriber.connection_settings import websocket_url

    given = {"socketio.host": args.host, "socketio.port": args.port}
    overrides = {name: str(value) for name, value in given.items() if value is not None}
    config = config_of(args, overrides, required=False)
    config = replace(config, socketio=replace(config.socketio, port=config.socketio.port or DEFAULT_PORT))
    if args.publisher:
        found = [websocket_url(one) for one in args.publisher]
    else:
        found = publishers_of(config) if config.socketio.publishers else publishers(args)
    asyncio.run(serve(config, found))
    return 0
