"""``python -m distributary.publisher``: one publisher process."""

from __future__ import annotations

import logging
import sys

from distributary.auth import check_exposure
from distributary.config import Config, load
from distributary.errors import DistributaryError
from distributary.httpd.certificates import reload_on_hangup
from distributary.kafka.changed_keys import ChangedKeys
from distributary.kafka.commands_topic import CommandsProducer
from distributary.kafka.record_router import create_router
from distributary.kafka.topic_writer import TopicWriter
from distributary.publisher.access_control import AccessControl
from distributary.publisher.publisher_server import PublisherServer
from distributary.publisher.websocket.client_publish import ClientPublisher
from distributary.service import Service, collect_garbage_rarely, run_service
from distributary.store.store_factory import open_reader


def _writer(config: Config) -> TopicWriter:
    # Clients give up after 5 seconds on their own: they get an error before that.
    return TopicWriter(config.kafka, create_router(config), timeout=4.0, linger_ms=0)


async def serve(config: Config) -> None:
    """Run a publisher until SIGTERM or SIGINT."""
    if not config.store.addresses:
        raise DistributaryError(
            "no store is configured for the publisher",
            hint="set DISTRIBUTARY_STORE_URL, or start it with: distributary up",
        )
    check_exposure(config)
    service = Service("publisher")
    store = open_reader(config.store.addresses)
    commands = CommandsProducer(config.kafka) if config.kafka.bootstrap_servers else None
    records = _writer(config) if config.kafka.bootstrap_servers else None
    publisher = PublisherServer(
        store,
        config.publisher,
        ttl=config.store.subscription_ttl,
        announce=commands.send if commands else None,
        client_publisher=ClientPublisher(config.feeds, store, records.send) if records else None,
        changed_keys=ChangedKeys(config.kafka) if config.kafka.bootstrap_servers else None,
        access=AccessControl(config, store),
    )
    try:
        await publisher.start()
        reload_on_hangup(publisher.certificates)
        await service.run(publisher.addresses, publisher.run())
    finally:
        await publisher.stop()
        if commands is not None:
            await commands.close(1.0)
        if records is not None:
            await records.close(1.0)
        await store.close()


def main() -> int:
    """Run; returns the exit code."""
    logging.getLogger("picows").setLevel(logging.CRITICAL)  # a line for every connection otherwise
    collect_garbage_rarely()
    return run_service(lambda: serve(load()))


if __name__ == "__main__":
    sys.exit(main())
