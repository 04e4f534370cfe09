"""A look at a stack without its control API: what ``distributary status`` does when nobody answers there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from distributary.config import Config
from distributary.config.embedded_defaults import with_embedded
from distributary.control.alarms import Alarm
from distributary.control.kafka_monitor import KafkaEye
from distributary.control.monitor import EVERY, Monitor
from distributary.control.status_routes import describe
from distributary.stack.ports import chosen
from distributary.store.store_factory import open_reader


async def look(config: Config, why: str) -> dict[str, Any]:
    """Look twice, a second apart, and describe the second look as the API would; ``why`` nobody answers."""
    config = with_ports(config)
    reader = open_reader(config.store.addresses)
    monitor = Monitor(config, reader, KafkaEye(config.kafka))
    try:
        await monitor.look()
        await asyncio.sleep(EVERY)
        seen = await monitor.look()
    finally:
        monitor.close()
        await reader.close()
    alarm = Alarm("part-silent", "control", why, "See its log", seen.sight.time)
    known = any(one.subject == "control" for one in seen.alarms)
    return describe(seen if known else replace(seen, alarms=[alarm, *seen.alarms]), config)


def with_ports(config: Config) -> Config:
    """Fill in the addresses of an embedded Kafka and store by the ports that the stack has chosen."""
    ports = chosen(config.data_dir / "ports.json")
    kafka, store = config.kafka, config.store
    if not kafka.bootstrap_servers:
        kafka = replace(kafka, port=ports.get("kafka", kafka.port))
    if not store.addresses:
        store = replace(store, port=ports.get("store", store.port))
    return with_embedded(replace(config, kafka=kafka, store=store))
