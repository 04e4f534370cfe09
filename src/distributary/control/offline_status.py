"""The status of a stack without its control API: for ``distributary status`` if that does not respond."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from distributary.config import Config
from distributary.config.embedded_defaults import with_embedded
from distributary.control.alarms import Alarm
from distributary.control.kafka_monitor import KafkaMonitor
from distributary.control.monitor import INTERVAL, Monitor
from distributary.control.status_routes import describe
from distributary.stack.ports import chosen
from distributary.store.store_factory import open_reader


async def observe(config: Config, problem: str) -> dict[str, Any]:
    """Observe twice, a second apart, and describe the second observation as the API would.

    ``problem`` is why the control API does not respond.
    """
    config = with_ports(config)
    reader = open_reader(config.store.addresses)
    monitor = Monitor(config, reader, KafkaMonitor(config.kafka))
    try:
        await monitor.observe()
        await asyncio.sleep(INTERVAL)
        found = await monitor.observe()
    finally:
        monitor.close()
        await reader.close()
    alarm = Alarm("part-silent", "control", problem, "See its log", found.observation.time)
    known = any(one.subject == "control" for one in found.alarms)
    return describe(found if known else replace(found, alarms=[alarm, *found.alarms]), config)


def with_ports(config: Config) -> Config:
    """Set the addresses of an embedded Kafka and store to the ports that the stack has chosen."""
    ports = chosen(config.data_dir / "ports.json")
    kafka, store = config.kafka, config.store
    if not kafka.bootstrap_servers:
        kafka = replace(kafka, port=ports.get("kafka", kafka.port))
    if not store.addresses:
        store = replace(store, port=ports.get("store", store.port))
    return with_embedded(replace(config, kafka=kafka, store=store))
