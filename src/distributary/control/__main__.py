"""``python -m distributary.control``: the control API as a process of a stack."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import sys

import uvloop

from distributary.auth import check_exposure
from distributary.auth.stack_token import ensure_token
from distributary.config import Config, load
from distributary.config.embedded_defaults import with_embedded
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.control.kafka_monitor import KafkaEye
from distributary.control.monitor import Monitor
from distributary.errors import DistributaryError
from distributary.httpd.certificates import reload_on_hangup
from distributary.httpd.listener import Listener
from distributary.kafka.commands_topic import CommandsProducer
from distributary.service import Heartbeat
from distributary.store.store_factory import open_reader, open_writer

log = logging.getLogger("distributary.control")

_STOP_SECONDS = 3.0
_MAX_LINE = 65_536
"""The longest address: a filter may have 16,384 characters, each of which may be written as three."""


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT; says on stdout when it is ready."""
    check_exposure(config)
    ensure_token(config.data_dir)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    reader, writer = open_reader(config.store.addresses), open_writer(config.store.addresses)
    commands = CommandsProducer(config.kafka)
    monitor = Monitor(config, reader, KafkaEye(config.kafka))
    context = Context(config, reader, writer, commands, monitor)
    listener = listener_of(context)
    try:
        await listener.start(config.control.port)
        reload_on_hangup(listener.certificates)
        addresses = {"http": listener.url}
        beating = asyncio.create_task(Heartbeat.of_process().run())
        print(json.dumps({"ready": True, "part": "control", "addresses": addresses}), flush=True)
        await stop.wait()
        beating.cancel()
    finally:
        await listener.stop()
        monitor.close()
        await commands.close(1.0)
        await reader.close()
        writer.close()


def listener_of(context: Context) -> Listener:
    """Make what serves the API; raises ConfigError when a certificate or the keys of ``[auth]`` are bad."""
    return Listener(
        make_app(context),
        context.config.control,
        part="the control API",
        setting="control.port",
        stop_seconds=_STOP_SECONDS,
        tally=context.connections,
        max_line_size=_MAX_LINE,
    )


def main() -> int:
    """Run; a DistributaryError is one line on stderr and exit status 1."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Rows hold no cycles, and a look for them at every few hundred takes a third of the time of a large read.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    try:
        uvloop.run(serve(with_embedded(load(required=False))))
    except DistributaryError as error:
        print(f"distributary.control: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
