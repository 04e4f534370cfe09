"""``distributary gateway``: Kafka over HTTP and the schema registry, by itself."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from distributary.cli.output import config_of

NAME = "gateway"
HELP = "serve Kafka over HTTP and a schema registry, beside any Kafka"
EXAMPLES = (
    "distributary gateway                        for the Kafka of ./distributary.toml; Ctrl-C stops it",
    "distributary gateway --port 8083            a second one; both have the same schemas",
    "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS=kafka:9092 distributary gateway   for that Kafka",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = (
        f"{parser.description}\nSpeaks the REST proxy's versions 1, 2 and (producing) 3, pushes topics as\n"
        "server-sent events or by WebSocket, and keeps schemas in a topic of the cluster.\n"
        "`distributary up` runs one already."
    )
    parser.add_argument("--host", metavar="HOST", help="the address to listen on (gateway.host)")
    parser.add_argument("--port", metavar="PORT", help="the port to listen on (gateway.port)")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; 0 when it was asked to stop."""
    import uvloop

    from distributary.config.embedded_defaults import with_embedded
    from distributary.gateway.__main__ import serve

    given = {"gateway.host": args.host, "gateway.port": args.port}
    overrides = {name: value for name, value in given.items() if value is not None}
    config = with_embedded(config_of(args, overrides, required=False))

    def say(addresses: Mapping[str, str]) -> None:
        print(
            f"gateway ready at {addresses['http']}, for Kafka at {config.kafka.bootstrap_servers}", flush=True
        )

    uvloop.run(serve(config, None if args.json else say))
    return 0
