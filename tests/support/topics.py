"""Changes of topics that are in use."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # not declared

from distributary.kafka.topics import get_topic
from tests.support.clock import LIMIT
from tests.support.wait import eventually


async def grow(admin: AdminClient, name: str, count: int) -> None:
    """Add partitions to a topic, and wait until the brokers report them."""
    admin.create_partitions([NewPartitions(name, count)])[name].result(20 * LIMIT)

    async def partitions() -> int:
        return get_topic(admin, name).partitions

    await eventually(partitions, lambda found: found == count)
