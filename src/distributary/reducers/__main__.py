"""``python -m distributary.reducers``: the reducers' process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from distributary.config import load
from distributary.errors import DistributaryError
from distributary.kafka.admin import wait_for_kafka
from distributary.reducers.driver import Driver
from distributary.reducers.process_watch import DaemonWatch, JvmLost
from distributary.reducers.spark_session import spark_session
from distributary.service import ExitCode, Heartbeat, fail, log_to_stderr, on_stop_signal, print_ready
from distributary.setup.jars import ensure
from distributary.store.embedded_server import wait_for_stores
from distributary.store.store_factory import move_views


def main() -> int:
    """Run until SIGTERM; returns an `ExitCode`, FINAL when a newer driver took over."""
    log_to_stderr()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        config = load()
        if not config.store.addresses:
            raise DistributaryError(
                "the reducers have no store",
                hint="set DISTRIBUTARY_STORE_URL, or start them with: distributary up",
            )
        daemon = DaemonWatch(config.data_dir / "heartbeats")
        daemon.export()
        # Spark comes first: it takes longest, and Kafka and the store may still be starting, too.
        spark = spark_session(config, ensure("spark"))
        wait_for_kafka(config.kafka, config.kafka.start_timeout, report=logging.info)
        asyncio.run(wait_for_stores(config.store.addresses, config.store.start_timeout, logging.info))
        for line in move_views(config.store.addresses):
            logging.warning(line)
    except DistributaryError as error:
        return fail(error)
    driver = Driver(config, spark, Heartbeat.from_environment(), daemon)
    on_stop_signal(driver.stop)
    try:
        driver.run(lambda: print_ready("reducers", {}))
    except JvmLost as error:
        # Nothing can be stopped in order any more: what would try waits for a JVM that is gone.
        os._exit(fail(error, ExitCode.JVM_LOST))
    spark.stop()
    if driver.superseded is not None:
        return fail(driver.superseded, ExitCode.FINAL)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
