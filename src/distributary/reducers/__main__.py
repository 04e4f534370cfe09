"""``python -m distributary.reducers``: the reducers' process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys

from distributary.config import load
from distributary.errors import DistributaryError
from distributary.kafka.topic_offsets import wait_for_kafka
from distributary.reducers.daemon_watch import DaemonWatch
from distributary.reducers.driver import Driver
from distributary.reducers.engine import spark_session
from distributary.reducers.jvm_watch import JvmLost
from distributary.service import Heartbeat
from distributary.setup.jars import ensure
from distributary.store.embedded_server import wait_for_stores
from distributary.store.store_factory import settle

SUPERSEDED, LOST = 3, 4


def main() -> int:
    """Run until SIGTERM; exit 3 when a newer driver took over, 4 when Spark's JVM is gone, 5 if it hangs."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        config = load()
        if not config.store.addresses:
            raise DistributaryError(
                "the reducers have no store",
                hint="set DISTRIBUTARY_STORE_URL, or start them with: distributary up",
            )
        daemon = DaemonWatch(config.data_dir / "heartbeats")
        daemon.announce()
        # First of all: it takes longest, and Kafka and the store may well be starting too.
        spark = spark_session(config, ensure("spark"))
        wait_for_kafka(config.kafka, config.kafka.start_timeout, say=logging.info)
        asyncio.run(wait_for_stores(config.store.addresses, config.store.start_timeout, logging.info))
        for line in settle(config.store.addresses):
            logging.warning(line)
    except DistributaryError as error:
        print(f"distributary reducers: {error}", file=sys.stderr)
        return 1
    driver = Driver(config, spark, Heartbeat.of_process(), daemon)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.stop())
    try:
        driver.run(_announce)
    except JvmLost as error:
        print(f"distributary reducers: {error}", file=sys.stderr, flush=True)
        # Nothing can be stopped in order any more, and what would try waits for a JVM that is not there.
        os._exit(LOST)
    spark.stop()
    if driver.superseded is not None:
        print(f"distributary reducers: {driver.superseded}", file=sys.stderr)
        return SUPERSEDED
    return 0


def _announce() -> None:
    print(json.dumps({"ready": True, "part": "reducers", "addresses": {}}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
