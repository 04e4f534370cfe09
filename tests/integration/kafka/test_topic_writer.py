"""Topics that change while records are written to them: more partitions, and another topic of the name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.topics import grow
from tests.support.wait import eventually

from distributary.config.sections import Kafka
from distributary.errors import TopicError
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import RecordRouter
from distributary.kafka.topic_writer import TopicWriter
from distributary.kafka.topics import ensure_topic, replace_topic

KEYS = [f"k{at}".encode() for at in range(9)]
SPREAD = [2, 2, 0, 1, 1, 0, 1, 1, 2]
"""Where the Java client puts these keys among three partitions."""


@pytest.fixture
async def writer(kafka: Kafka) -> AsyncIterator[TopicWriter]:
    writer = TopicWriter(kafka, RecordRouter({}))
    yield writer
    await writer.close()


async def spread(writer: TopicWriter, topic: str) -> list[int]:
    """Write all keys; gives the partition of each."""
    written = await asyncio.gather(*(writer.send(OutgoingRecord(topic, b"x", key)) for key in KEYS))
    return [one.partition for one in written]


async def test_record_for_an_added_partition_is_written_at_once(
    admin: AdminClient, writer: TopicWriter, name: str
) -> None:
    ensure_topic(admin, name, 1)
    assert (await writer.send(OutgoingRecord(name, b"x"))).partition == 0
    await grow(admin, name, 3)
    await writer.prepare(name, 2)
    assert (await writer.send(OutgoingRecord(name, b"x", partition=2))).partition == 2
    assert await spread(writer, name) == SPREAD
    await writer.prepare(name, 3)
    with pytest.raises(TopicError, match="partition"):
        await writer.send(OutgoingRecord(name, b"x", partition=3))


async def test_keys_are_spread_over_added_partitions_within_seconds(
    admin: AdminClient, writer: TopicWriter, name: str
) -> None:
    ensure_topic(admin, name, 1)
    assert await spread(writer, name) == [0] * 9
    await grow(admin, name, 3)
    await eventually(lambda: spread(writer, name), lambda found: found == SPREAD, limit=3.0)


async def test_records_reach_all_partitions_of_a_replaced_topic(
    admin: AdminClient, writer: TopicWriter, name: str
) -> None:
    ensure_topic(admin, name, 1)
    assert await spread(writer, name) == [0] * 9
    replace_topic(admin, name, 3)
    await writer.prepare(name, 2)
    assert (await writer.send(OutgoingRecord(name, b"x", partition=2))).partition == 2
    await eventually(lambda: spread(writer, name), lambda found: found == SPREAD, limit=3.0)
