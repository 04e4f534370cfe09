"""``python -m distributary.control``: the control API as a process of a stack."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import sys

import uvloop
from aiohttp import web

from distributary.config import Config, load
from distributary.config.embedded import with_embedded
from distributary.control.app import make_app
from distributary.control.context import Context
from distributary.control.kafka_eye import KafkaEye
from distributary.control.monitor import Monitor
from distributary.errors import DistributaryError, PortTaken
from distributary.heartbeat import Heartbeat
from distributary.kafka.commands import CommandsProducer
from distributary.permit import check_exposure
from distributary.store.shards import open_reader, open_writer

log = logging.getLogger("distributary.control")

_STOP_SECONDS = 3.0
_MAX_LINE = 65_536
"""The longest address: a filter may have 16,384 characters, each of which may be written as three."""


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT; says on stdout when it is ready."""
    check_exposure(config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    reader, writer = open_reader(config.store.addresses), open_writer(config.store.addresses)
    commands = CommandsProducer(config.kafka)
    monitor = Monitor(config, reader, KafkaEye(config.kafka))
    context = Context(config, reader, writer, commands, monitor)
    runner = web.AppRunner(
        make_app(context), access_log=None, shutdown_timeout=_STOP_SECONDS, max_line_size=_MAX_LINE
    )
    await runner.setup()
    try:
        await _listen(runner, config.control.host, config.control.port)
        host = f"[{config.control.host}]" if ":" in config.control.host else config.control.host
        addresses = {"http": f"http://{host}:{config.control.port}"}
        beating = asyncio.create_task(Heartbeat.of_process().run())
        print(json.dumps({"ready": True, "part": "control", "addresses": addresses}), flush=True)
        await stop.wait()
        beating.cancel()
    finally:
        await runner.cleanup()
        monitor.close()
        await commands.close(1.0)
        await reader.close()
        writer.close()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise PortTaken(
            f"the control API cannot listen on {host}:{port}: {error.strerror}",
            hint="set control.port to a free port",
        ) from None


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
