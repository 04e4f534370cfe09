"""The reader of an event feed: in order, and never past what is missing without a word."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from tests.support.clock import LIMIT
from tests.support.stack import Feeding
from tests.support.wait import eventually

from distributary.kafka.topics import delete_topic, ensure_topic
from distributary.reducers.event_reader import EventReader, EventsLost

pytestmark = pytest.mark.slow


@pytest.fixture
def readers(feeding: Feeding) -> Iterator[list[EventReader]]:
    started: list[EventReader] = []
    ensure_topic(feeding.stack.admin(), feeding.topic, 1)
    feeding.produce((None, b"%d" % n) for n in range(10))
    yield started
    for one in started:
        one.close()
    delete_topic(feeding.stack.admin(), feeding.topic)


def read(feeding: Feeding, readers: list[EventReader], start: int) -> tuple[EventReader, threading.Event]:
    notified = threading.Event()
    reader = EventReader(feeding.stack.config.kafka, feeding.topic, start, notified.set).start()
    readers.append(reader)
    return reader, notified


async def test_events_are_read_in_order_from_the_start(feeding: Feeding, readers: list[EventReader]) -> None:
    reader, _ = read(feeding, readers, 4)

    async def waiting() -> list[int]:
        return [one.offset for one in reader.waiting()]

    await eventually(waiting, lambda found: found == [4, 5, 6, 7, 8, 9])
    reader.done(8)
    assert await waiting() == [8, 9]


async def test_events_that_retention_removed_are_an_error(
    feeding: Feeding, readers: list[EventReader]
) -> None:
    admin, place = feeding.stack.admin(), TopicPartition(feeding.topic, 0, 6)
    admin.delete_records([place])[place].result(20 * LIMIT)
    reader, notified = read(feeding, readers, 4)
    assert notified.wait(20 * LIMIT)
    assert reader.has_some(), "it notifies also for a failure"
    with pytest.raises(EventsLost, match=feeding.topic):
        reader.waiting()
    with pytest.raises(EventsLost):
        reader.is_known()
