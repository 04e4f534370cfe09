"""``python -m distributary.publisher``: one publisher process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import sys

import uvloop

from distributary.auth import check_exposure
from distributary.config import Config, load
from distributary.errors import DistributaryError
from distributary.httpd.certificates import reload_on_hangup
from distributary.kafka.changed_keys import TouchedKeys
from distributary.kafka.commands_topic import CommandsProducer
from distributary.kafka.record_router import make_gate
from distributary.kafka.topic_writer import TopicWriter
from distributary.publisher.access.door import Door
from distributary.publisher.publisher_server import Publisher
from distributary.publisher.websocket.client_publish import Inlet
from distributary.store.store_factory import open_reader


def _writer(config: Config) -> TopicWriter:
    # Clients give up after 5 seconds by themselves; they are told before that.
    return TopicWriter(config.kafka, make_gate(config), timeout=4.0, linger_ms=0)


async def serve(config: Config) -> None:
    """Run a publisher until it is told to stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    store = open_reader(config.store.addresses)
    commands = CommandsProducer(config.kafka) if config.kafka.bootstrap_servers else None
    records = _writer(config) if config.kafka.bootstrap_servers else None
    publisher = Publisher(
        store,
        config.publisher,
        ttl=config.store.subscription_ttl,
        announce=commands.send if commands else None,
        inlet=Inlet(config.feeds, store, records.send) if records else None,
        replay=TouchedKeys(config.kafka) if config.kafka.bootstrap_servers else None,
        door=Door(config, store),
    )
    try:
        await publisher.start()
        reload_on_hangup(publisher.certificates)
        said = {"ready": True, "part": "publisher", "addresses": publisher.addresses}
        print(json.dumps(said), flush=True)
        serving = asyncio.create_task(publisher.run())
        waiting = asyncio.create_task(stopping.wait())
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    finally:
        await publisher.stop()
        if commands is not None:
            await commands.close(1.0)
        if records is not None:
            await records.close(1.0)
        await store.close()


def main() -> int:
    """Read the configuration and serve; errors are one line."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("picows").setLevel(logging.CRITICAL)  # a line for every connection otherwise
    try:
        config = load(env=os.environ)
        if not config.store.addresses:
            raise DistributaryError(
                "the publisher has no store",
                hint="set DISTRIBUTARY_STORE_URL, or start it with: distributary up",
            )
        check_exposure(config)
        # Rows and frames hold no cycles: looking for them at every few hundred slows first states down.
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)
        uvloop.run(serve(config))
    except DistributaryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
