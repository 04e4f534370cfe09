"""The commands that run one server: ``distributary gateway`` and ``distributary socketio``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import click

from distributary.cli.command_line import Args, command, load_config

SOCKETIO_PORT = 8003


@command(
    "gateway",
    details="Speaks versions 1, 2 and (for producing) 3 of the REST proxy's API, streams topics as "
    "server-sent events or over WebSocket, and keeps schemas in a topic of the cluster. `distributary up` "
    "runs one already.",
    examples=(
        "distributary gateway                        for the Kafka of ./distributary.toml; Ctrl-C stops it",
        "distributary gateway --port 8083            a second one; both have the same schemas",
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS=kafka:9092 distributary gateway   for that Kafka",
    ),
)
@click.option("--host", metavar="HOST", help="the address to listen on (default: gateway.host)")
@click.option("--port", metavar="PORT", help="the port to listen on (default: gateway.port)")
def gateway_command(args: Args) -> int:
    """Serve until SIGINT or SIGTERM; 0 when it was asked to stop."""
    import uvloop

    from distributary.config.embedded_defaults import with_embedded
    from distributary.gateway.__main__ import serve

    config = with_embedded(load_config(args, _overrides("gateway", args), required=False))

    def say(addresses: Mapping[str, str]) -> None:
        print(
            f"gateway ready at {addresses['http']}, for Kafka at {config.kafka.bootstrap_servers}", flush=True
        )

    uvloop.run(serve(config, None if args.json else say))
    return 0


@command(
    "socketio",
    details="Needs the extra: pip install 'distributary[socketio]'. `distributary up` runs it too when "
    "socketio.port is set.",
    examples=(
        "distributary socketio                                    for the stack of this folder",
        "distributary socketio --port 9003 --publisher wss://stream.example.com",
    ),
)
@click.option("--host", metavar="HOST", help="the address to listen on (default: socketio.host)")
@click.option(
    "--port",
    type=int,
    metavar="PORT",
    help=f"the port to listen on (default: socketio.port, else {SOCKETIO_PORT})",
)
@click.option(
    "--publisher",
    multiple=True,
    metavar="URL",
    help="a publisher's address; may be repeated (default: socketio.publishers, else the stack's)",
)
def socketio_command(args: Args) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    from distributary.cli.subscribe_command import publishers
    from distributary.model.endpoints import websocket_url
    from distributary.socketio_gateway.__main__ import publishers_of, serve

    config = load_config(args, _overrides("socketio", args), required=False)
    config = replace(config, socketio=replace(config.socketio, port=config.socketio.port or SOCKETIO_PORT))
    if args.publisher:
        found = [websocket_url(url) for url in args.publisher]
    else:
        found = publishers_of(config) if config.socketio.publishers else publishers(args)
    asyncio.run(serve(config, found))
    return 0


def _overrides(section: str, args: Args) -> dict[str, str]:
    """The settings of a server that its options replace."""
    given = {f"{section}.host": args.host, f"{section}.port": args.port}
    return {name: str(value) for name, value in given.items() if value is not None}
