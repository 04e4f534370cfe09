"""What tests do to topics that others use meanwhile."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # not declared

from distributary.kafka.topics import get_topic
from tests.support.clock import LIMIT
from tests.support.wait import eventually


async def grow(admin: AdminClient, name: str, count: int) -> None:
    """Give a topic more partitions; ends when brokers say that it has them."""
    admin.create_partitions([NewPartitions(name, count)])[name].result(20 * LIMIT)

    async def partitions() -> int:
        return get_topic(admin, name).partitions

    await eventually(partitions, lambda found: found == count)
