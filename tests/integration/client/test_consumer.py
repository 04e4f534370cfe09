"""The consumer against a real broker."""

from __future__ import annotations

import logging
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.client.conftest import Configurations, NewTopic
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.client import Consumer, Producer, Record
from distributary.config.sections import Kafka
from distributary.errors import GroupRefused, KafkaClientError, KafkaUnavailable, OffsetMissing, TopicMissing
from distributary.kafka import librdkafka
from distributary.kafka.topics import delete_topic, ensure_topic

pytestmark = pytest.mark.slow

WAIT = 20 * LIMIT
PartitionId = tuple[str, int]


def fill(configure: Configurations, topic: str, count: int, partition: int = 0, at: int = 0) -> None:
    with Producer(configure.producer(producer_type="async")) as producer:
        for number in range(count):
            when = at + number * 1000 if at else None
            producer.send_string(topic, str(number), partition=partition, timestamp=when)


def take(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        records = consumer.receive(WAIT)
        assert records, f"only {len(found)} of {count} came"
        found += records
    return found


def test_read_records_are_committed_and_logged(
    configure: Configurations, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(configure, topic, 5)
    settings = configure.consumer()
    with caplog.at_level(logging.INFO), Consumer(settings) as consumer:
        consumer.subscribe(topic)
        assert [one.text for one in take(consumer, 5)] == list("01234")
        assert consumer.poll(1) == []
    assert f"group {consumer.group} committed {topic}/0@5" in caplog.text
    fill(configure, topic, 1, partition=1)
    with Consumer(settings) as consumer:
        consumer.subscribe(topic)
        assert consumer.pollString(20_000) == ["0"]


def test_records_being_read_are_delivered_again_after_a_failure(
    configure: Configurations, topic: str
) -> None:
    fill(configure, topic, 3)
    settings = configure.consumer()

    def fail_at(offset: int) -> None:
        with Consumer(settings) as consumer:
            consumer.subscribe(topic)
            for record in consumer:
                if record.offset == offset:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at(1)
    with Consumer(settings) as consumer:
        consumer.subscribe(topic)
        assert [one.offset for one in take(consumer, 2)] == [1, 2]


def test_only_commit_commits_without_auto_commit(
    configure: Configurations, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(configure, topic, 4)
    settings = configure.consumer(enable_auto_commit=False, max_poll_records=2)
    with caplog.at_level(logging.INFO), Consumer(settings) as consumer:
        consumer.subscribe(topic)
        assert len(consumer.receive(WAIT)) <= 2
        take(consumer, 1)
        consumer.seek(topic, 0, 0)
        first = take(consumer, 2)[:2]
        consumer.commit()
        assert consumer.committed()[topic, 0] == first[-1].offset + 1
        take(consumer, 1)
    assert len(re.findall("committed", caplog.text)) == 1
    with Consumer(settings) as consumer:
        consumer.subscribe(topic)
        assert take(consumer, 1)[0].offset == first[-1].offset + 1


HOUR_AGO = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
"""Recent: a broker may delete records that are older than a week at any time."""

STARTS: list[tuple[Any, list[int]]] = [
    ("earliest", list(range(6))),
    (HOUR_AGO + timedelta(seconds=2.5), [3, 4, 5]),
    ({0: 4}, [4, 5]),
]


@pytest.mark.parametrize(("start", "offsets"), STARTS)
def test_consumer_starts_at_the_given_start(
    configure: Configurations, topic: str, start: Any, offsets: list[int]
) -> None:
    fill(configure, topic, 6, at=int(HOUR_AGO.timestamp() * 1000))
    settings = configure.consumer(auto_offset_reset="latest")
    with Consumer(settings) as consumer:
        consumer.subscribe(topic, start=start)
        assert [one.offset for one in take(consumer, len(offsets))] == offsets
    with Consumer(settings) as consumer:  # a backfill: also where the group has read already
        consumer.subscribe(topic, start={(topic, 0): 5})
        assert [one.offset for one in take(consumer, 1)] == [5]


def test_latest_starts_with_records_written_from_now_on(configure: Configurations, topic: str) -> None:
    fill(configure, topic, 3)
    here: list[PartitionId] = []
    with Consumer(configure.consumer()) as consumer:
        consumer.subscribe(topic, start="latest", on_assigned=here.extend)
        deadline = time.monotonic() + WAIT
        while not here and time.monotonic() < deadline:
            assert consumer.poll(50) == []
        assert sorted(here) == consumer.assignment() == [(topic, 0), (topic, 1), (topic, 2)]
        assert consumer.poll(300) == []  # the end is looked up later
        fill(configure, topic, 1)
        assert take(consumer, 1)[0].offset == 3


@pytest.mark.parametrize(
    ("start", "reset"),
    [("latest", "earliest"), (None, "latest"), ({0: 3, 1: 3, 2: 3}, "latest")],
    ids=["start", "auto.offset.reset", "offsets"],
)
def test_records_after_the_start_are_not_skipped_after_a_crash(
    configure: Configurations, topic: str, start: Any, reset: str
) -> None:
    for partition in range(3):
        fill(configure, topic, 3, partition)
    settings = configure.consumer(enable_auto_commit=False, auto_offset_reset=reset)
    here: list[PartitionId] = []
    with Consumer(settings) as consumer:
        consumer.subscribe(topic, start=start, on_assigned=here.extend)
        deadline = time.monotonic() + WAIT
        while not here and time.monotonic() < deadline:
            assert consumer.poll(50) == []
        fill(configure, topic, 1)
        assert take(consumer, 1)[0].offset == 3
        consumer.close(read=False)  # nothing of it is committed, as if it had crashed
    with Consumer(settings) as consumer:
        consumer.subscribe(topic, start="latest" if start == "latest" else None)
        assert take(consumer, 1)[0].offset == 3
        assert consumer.committed() == {(topic, partition): 3 for partition in range(3)}


def test_latest_does_not_move_a_group_with_offsets(configure: Configurations, topic: str) -> None:
    fill(configure, topic, 3)
    settings = configure.consumer(enable_auto_commit=False)
    with Consumer(settings) as consumer:
        consumer.subscribe(topic)
        take(consumer, 3)
        consumer.commit()
    with Consumer(settings) as consumer:
        consumer.subscribe(topic, start="earliest")
        take(consumer, 3)
        assert consumer.committed()[topic, 0] == 3


def test_patterns_also_match_topics_created_later(configure: Configurations, new_topic: NewTopic) -> None:
    first, second = new_topic(1), new_topic(1)
    for topic in (first, second):
        fill(configure, topic, 1)
    with Consumer(configure.consumer()) as consumer:
        consumer.subscribe([first, second])
        assert {one.topic for one in take(consumer, 2)} == {first, second}
    with Consumer(configure.consumer(metadata_max_age_ms=300)) as consumer:
        consumer.subscribe(f"^({first}|c-.*-later)")
        assert {one.topic for one in take(consumer, 1)} == {first}
        admin = librdkafka.admin(Kafka(bootstrap_servers=configure.servers))
        later = f"{second}-later"
        ensure_topic(admin, later, 1)
        fill(configure, later, 1)
        assert {one.topic for one in take(consumer, 1)} == {later}
        delete_topic(admin, later)


def test_second_member_takes_over_without_reading_again(configure: Configurations, topic: str) -> None:
    for partition in range(3):
        fill(configure, topic, 4, partition)
    moves: list[tuple[str, list[PartitionId]]] = []
    settings = configure.consumer(enable_auto_commit=False)
    read: list[tuple[int, int]] = []
    with Consumer(settings) as one, Consumer(settings) as two:

        def gone(partitions: list[PartitionId]) -> None:
            moves.append(("revoked", partitions))
            one.commit()

        one.subscribe(topic, on_assigned=lambda p: moves.append(("assigned", p)), on_revoked=gone)
        read += [(r.partition, r.offset) for r in take(one, 12)]
        two.subscribe(topic)
        deadline = time.monotonic() + WAIT
        while not two.assignment() and time.monotonic() < deadline:
            read += [(r.partition, r.offset) for r in one.receive(0.1)]
            read += [(r.partition, r.offset) for r in two.receive(0.1)]
        for partition in range(3):
            fill(configure, topic, 1, partition)
        while len(read) < 15 and time.monotonic() < deadline:
            read += [(r.partition, r.offset) for r in one.receive(0.1)]
            read += [(r.partition, r.offset) for r in two.receive(0.1)]
    assert moves[0][0] == "assigned"
    assert len(moves[0][1]) == 3
    assert moves[1][0] == "revoked"
    assert sorted(read) == [(p, o) for p in range(3) for o in range(5)]


@pytest.mark.parametrize("known", [False, True], ids=["a new group", "a group that has been there"])
def test_start_offset_is_kept_when_partitions_come_back(
    configure: Configurations, topic: str, known: bool
) -> None:
    for partition in range(3):
        fill(configure, topic, 1, partition)
    settings = configure.consumer(enable_auto_commit=False, auto_offset_reset="latest")
    if known:
        with Consumer(settings) as before:
            before.subscribe(topic, start="earliest")
            take(before, 3)
            before.commit()
    with Consumer(settings) as one:
        one.subscribe(topic, start="earliest")
        take(one, 3)
        with Consumer(settings) as two:
            two.subscribe(topic)
            deadline = time.monotonic() + WAIT
            while not two.assignment() and time.monotonic() < deadline:
                one.receive(0.1)
                two.receive(0.1)
            assert two.assignment()
            assert len(one.assignment()) < 3
        again: set[int] = set()
        while (
            len(again) < 3 and time.monotonic() < deadline
        ):  # nothing was committed: all of it is delivered again
            again |= {record.partition for record in one.receive(0.2) if len(one.assignment()) == 3}
    assert again == {0, 1, 2}


def test_paused_partition_stays_assigned_and_is_not_read(configure: Configurations, topic: str) -> None:
    fill(configure, topic, 1, partition=0)
    with Consumer(configure.consumer()) as consumer:
        consumer.subscribe(topic)
        take(consumer, 1)
        consumer.pause([(topic, 0)])
        fill(configure, topic, 1, partition=0)
        fill(configure, topic, 1, partition=1)
        assert [one.partition for one in take(consumer, 1)] == [1]
        assert consumer.receive(0.3) == []
        assert len(consumer.assignment()) == 3
        consumer.resume()
        assert [one.partition for one in take(consumer, 1)] == [0]


def test_impossible_requests_raise(configure: Configurations, topic: str) -> None:
    with Consumer(configure.consumer(auto_offset_reset="none")) as consumer:
        with pytest.raises(TopicMissing, match=topic + "-none"):
            consumer.subscribe([topic, topic + "-none"])
        with pytest.raises(KafkaClientError, match=r"\^\["):
            consumer.subscribe("^[")
        with pytest.raises(GroupRefused, match="not assigned here"):
            consumer.seek(topic, 0, 1)
        consumer.subscribe(topic)
        with pytest.raises(OffsetMissing, match=f"{topic} partition"):
            consumer.receive(WAIT)
    with Consumer(configure.consumer(auto_offset_reset="none")) as consumer:
        consumer.subscribe(topic, start={0: 99, 1: 99, 2: 99})
        with pytest.raises(OffsetMissing, match=rf"{topic} partition \d as group .*auto\.offset\.reset"):
            consumer.receive(WAIT)
    with pytest.raises(KafkaClientError, match="closed"):
        consumer.poll(0)
    nowhere = f"127.0.0.1:{free_port()}"
    with Consumer(
        configure.consumer(bootstrap_servers=nowhere, default_api_timeout_ms=int(500 * LIMIT))
    ) as consumer:
        with pytest.raises(KafkaUnavailable, match="refused") as caught:
            consumer.subscribe(topic)
        assert nowhere in str(caught.value)
