"""``python -m distributary.control``: the control API as a process of a stack."""

from __future__ import annotations

import sys

from distributary.auth import check_exposure
from distributary.auth.token_issuer import ensure_token
from distributary.config import Config, load
from distributary.config.embedded_defaults import with_embedded
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.control.kafka_monitor import KafkaMonitor
from distributary.control.monitor import Monitor
from distributary.httpd.certificates import reload_on_hangup
from distributary.httpd.listener import Listener
from distributary.kafka.commands_topic import CommandsProducer
from distributary.service import Service, collect_garbage_rarely, run_service
from distributary.store.store_factory import open_reader, open_writer

_STOP_SECONDS = 3.0
_MAX_LINE = 65_536
"""The longest address: a filter may have 16,384 characters, each of which may be written as three."""


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT."""
    check_exposure(config)
    ensure_token(config.data_dir)
    service = Service("control")
    reader, writer = open_reader(config.store.addresses), open_writer(config.store.addresses)
    commands = CommandsProducer(config.kafka)
    monitor = Monitor(config, reader, KafkaMonitor(config.kafka))
    context = Context(config, reader, writer, commands, monitor)
    listener = listener_of(context)
    try:
        await listener.start(config.control.port)
        reload_on_hangup(listener.certificates)
        await service.run({"http": listener.url})
    finally:
        await listener.stop()
        monitor.close()
        await commands.close(1.0)
        await reader.close()
        writer.close()


def listener_of(context: Context) -> Listener:
    """Create the API's listener; raises ConfigError if a certificate or a key of ``[auth]`` is invalid."""
    return Listener(
        make_app(context),
        context.config.control,
        server="the control API",
        setting="control.port",
        stop_seconds=_STOP_SECONDS,
        tally=context.connections,
        max_line_size=_MAX_LINE,
    )


def main() -> int:
    """Run; returns the exit code."""
    collect_garbage_rarely()
    return run_service(lambda: serve(with_embedded(load(required=False))))


if __name__ == "__main__":
    sys.exit(main())
