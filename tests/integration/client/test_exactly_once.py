"""Transactions, and the loop in which input and output count together."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.client.conftest import Configurations, NewTopic
from tests.support.clock import LIMIT

from distributary.client import Consumer, Producer, Record, exactly_once
from distributary.errors import ConfigError, KafkaClientError, ProducerFenced

pytestmark = pytest.mark.slow

WAIT = 20 * LIMIT


def read_all(configure: Configurations, topic: str, count: int, **words: Any) -> list[str]:
    found: list[str] = []
    with Consumer(configure.consumer(**words)) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            records = consumer.receive(WAIT)
            assert records
            found += [one.text for one in records]
        found += [one.text for one in consumer.receive(0.2)]
    return found


def test_transaction_writes_all_records_or_none(configure: Configurations, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    with Producer(configure.producer(transactional_id=topic)) as producer:
        with producer.transaction():
            assert producer.send_string(topic, "a") is None
            producer.send_string(topic, "b")

        def give_up() -> None:
            with producer.transaction():
                producer.send_string(topic, "never")
                producer.flush()
                raise KeyError("no")

        with pytest.raises(KeyError):
            give_up()
        with producer.transaction():
            producer.send_string(topic, "c")
    assert read_all(configure, topic, 3) == ["a", "b", "c"]
    raw = read_all(configure, topic, 4, isolation_level="read_uncommitted")
    assert sorted(raw) == ["a", "b", "c", "never"]


def test_older_of_two_producers_with_the_same_id_is_fenced(
    configure: Configurations, new_topic: NewTopic, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(1)
    settings = configure.producer(transactional_id=topic)
    older, newer = Producer(settings), Producer(settings)
    with older.transaction():
        older.send_string(topic, "1")
    with newer.transaction():
        newer.send_string(topic, "2")

    def write() -> None:
        with older.transaction():
            older.send_string(topic, "3")

    with pytest.raises(ProducerFenced, match="taken over"):
        write()
    newer.close()
    older.close()
    assert capfd.readouterr().err == ""


def test_missing_requirements_are_named(configure: Configurations, topic: str) -> None:
    plain = Producer(configure.producer())
    with pytest.raises(ConfigError, match=r"transactional\.id"), plain.transaction():
        pass
    with (
        Consumer(configure.consumer()) as consumer,
        pytest.raises(ConfigError, match=r"enable\.auto\.commit"),
    ):
        exactly_once(consumer, plain, print)
    with (
        Producer(configure.producer(transactional_id=topic)) as producer,
        producer.transaction(),
        pytest.raises(KafkaClientError, match="under way"),
        producer.transaction(),
    ):
        pass


def test_each_record_counts_once_despite_failures(configure: Configurations, new_topic: NewTopic) -> None:
    source, target = new_topic(2), new_topic(1)
    with Producer(configure.producer(producer_type="async")) as producer:
        for number in range(60):
            producer.send_string(source, str(number), key=str(number))
    settings = configure.consumer(enable_auto_commit=False, max_poll_records=7)
    done = 0
    fails = [5, 23, 41]

    class Down(Exception):
        """What a handler may meet."""

    def run(producer: Producer, consumer: Consumer) -> None:
        def double(record: Record) -> None:
            nonlocal done
            producer.send_string(target, f"{record.text}!", key=record.key)
            done += 1
            if fails and done == fails[0]:
                raise Down

        quiet = 0

        def stop() -> bool:
            nonlocal quiet
            quiet = quiet + 1 if done == before[0] else 0
            before[0] = done
            return done >= 60 and quiet > 2

        before = [0]
        exactly_once(consumer, producer, double, stop=stop)

    with Producer(configure.producer(transactional_id=target)) as producer:
        while True:
            try:
                with Consumer(settings) as consumer:
                    consumer.subscribe(source)
                    try:
                        run(producer, consumer)
                    except Down:  # the first failure: the same consumer continues before its batch
                        if len(fails) == 3:
                            fails.pop(0)
                            run(producer, consumer)
                        raise
                break
            except Down:  # the others: another consumer begins where the last transaction was
                fails.pop(0)
    found = read_all(configure, target, 60)
    assert sorted(found) == sorted(f"{number}!" for number in range(60))
