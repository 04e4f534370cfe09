"""The producer against a real broker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.client.conftest import Configurations, NewTopic
from tests.support.clock import LIMIT
from tests.support.servers import free_port
from tests.support.stack import RunningStack

from distributary.client import Consumer, Producer, Record
from distributary.errors import (
    ConfigError,
    DistributaryError,
    KafkaClientError,
    KafkaUnavailable,
    RecordRefused,
    TopicError,
    TopicMissing,
)

pytestmark = pytest.mark.slow


def all_of(configure: Configurations, topic: str, count: int) -> list[Record]:
    found: list[Record] = []
    with Consumer(configure.consumer()) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            records = consumer.receive(20)
            assert records
            found += records
    return found


def test_record_is_acknowledged_when_send_returns(configure: Configurations, topic: str) -> None:
    timestamp = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    with Producer(configure.producer()) as producer:
        sent = producer.send(
            topic,
            b"\x00\xff",
            key=b"k",
            partition=2,
            headers=[("a", b"1"), ("a", b"2"), ("n", None)],
            timestamp=timestamp,
        )
        assert sent == (topic, 2, 0, "")
        assert producer.sendString(topic, "é", key="k", partition=2, headers={"h": "x"}) == (topic, 2, 1, "")
        assert producer.send(topic, None, key="gone", partition=2) == (topic, 2, 2, "")
    first, second, third = all_of(configure, topic, 3)
    assert first[:5] == (topic, 2, 0, b"k", b"\x00\xff")
    assert first.headers == (("a", b"1"), ("a", b"2"), ("n", None))
    assert first.header("a") == b"2"
    assert first.timestamp == timestamp.timestamp() * 1000
    assert (second.text, second.header("h")) == ("é", b"x")
    assert (third.key, third.value) == (b"gone", None)


def test_round_robin_uses_each_partition_in_turn(configure: Configurations, topic: str) -> None:
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    with Producer(configure.producer(partitioner_class=name)) as producer:
        sent = [producer.send(topic, b"x", key="same") for _ in range(6)]
    assert [one.partition for one in sent if one] == [0, 1, 2, 0, 1, 2]


def test_errors_name_the_record_the_topic_and_what_to_do(configure: Configurations, topic: str) -> None:
    cases: list[tuple[type[DistributaryError], str, object, dict[str, object], list[str]]] = [
        (
            RecordRefused,
            topic,
            b"x" * 2_000_000,
            {"key": "big"},
            ["2000000 bytes", "'big'", "max.request.size"],
        ),
        (TopicError, topic, b"x", {"partition": 9}, [f"{topic} partition 9", "no such partition"]),
        (TopicMissing, topic + "-none", b"x", {}, [topic + "-none", configure.servers]),
        (TopicError, "not a name!", b"x", {}, ["not a name!", "name is not valid"]),
    ]
    with Producer(configure.producer(max_block_ms=5000)) as producer:
        for kind, to, value, options, parts in cases:
            with pytest.raises(kind) as caught:
                producer.send(to, value, **options)  # type: ignore[arg-type]
            assert all(text in str(caught.value) for text in parts), str(caught.value)
        with pytest.raises(TypeError, match="send_string"):
            producer.send(topic, "text")  # type: ignore[arg-type]
        assert producer.send(topic, b"still there", partition=0) == (topic, 0, 0, "")
    with pytest.raises(KafkaClientError, match="closed"):
        producer.send(topic, b"x")


def test_wrong_address_is_named_with_the_reason(configure: Configurations) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with Producer(configure.producer(bootstrap_servers=nowhere, max_block_ms=int(500 * LIMIT))) as producer:
        with pytest.raises(KafkaUnavailable) as caught:
            producer.send("t", b"x")
        assert nowhere in str(caught.value)
        assert "refused" in str(caught.value)
        assert caught.value.retry


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression_type": "zip"}, "Properties.compression.type"),
        ({"linger_ms": 5000, "delivery_timeout_ms": 100}, "Properties.delivery.timeout.ms"),
    ],
)
def test_value_that_librdkafka_refuses_is_named_as_in_java(
    configure: Configurations, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Producer(configure.producer(**options))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_async_producer_raises_errors_at_the_next_call_and_at_close(
    configure: Configurations, topic: str, stack: RunningStack
) -> None:
    # The broker refuses what the client lets pass. What lingers is sent by flush and close, so that the
    # second record is queued before the first is refused.
    options = {"producer_type": "async", "max_request_size": 50_000_000, "linger_ms": 60_000}
    options["batch_size"] = 50_000_000
    producer = Producer(configure.producer(**options))  # type: ignore[arg-type]
    assert producer.send(topic, b"x" * 5_000_000, key="too big") is None
    with pytest.raises(RecordRefused, match="too big"):
        producer.flush()
    assert producer.send(topic, b"good", partition=0) is None
    producer.flush()
    producer.send(topic, b"x" * 5_000_000, key="again")
    producer.send(topic, b"x" * 5_000_000, key="and again")
    with pytest.raises(RecordRefused, match="and 1 more"):
        producer.close()
    producer.close()
    assert [one.value for one in all_of(configure, topic, 1)] == [b"good"]


def test_leaving_the_block_sends_what_is_queued(configure: Configurations, topic: str) -> None:
    with Producer(configure.producer(producer_type="async", linger_ms=60_000)) as producer:
        for number in range(100):
            producer.send(topic, str(number).encode(), partition=0)
    assert [int(one.text) for one in all_of(configure, topic, 100)] == list(range(100))


def test_threads_may_share_a_producer(configure: Configurations, topic: str) -> None:
    with Producer(configure.producer()) as producer:

        def write(name: str) -> None:
            for number in range(20):
                assert producer.send(topic, f"{name}{number}".encode(), key=name)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    found = [one.text for one in all_of(configure, topic, 80)]
    for name in "abcd":
        assert [text for text in found if text[0] == name] == [f"{name}{n}" for n in range(20)]


def test_schema_mismatch_is_a_dead_letter_and_routes_choose_the_topic(
    configure: Configurations, new_topic: NewTopic
) -> None:
    orders, large = new_topic(1), new_topic(1)
    schema = {"type": "object", "required": ["price"], "properties": {"price": {"type": "number"}}}
    rules = {
        orders: {
            "Schema": {"Type": "JSON", "Definition": schema},
            "Routes": [{"Where": "price > 100", "Topic": large}],
        }
    }
    with Producer(configure.producer(rules)) as producer:
        assert producer.send(orders, b'{"price": 7}') == (orders, 0, 0, "")
        assert producer.send(orders, b'{"price": 700}', partition=0) == (large, 0, 0, "")
        sent = producer.send(orders, b'{"price": "dear"}', key="k", headers={"own": "1"})
        assert sent is not None
        assert sent.topic == f"{orders}.dead-letters"
        assert "$.price" in sent.reason
    (dead_letter,) = all_of(configure, sent.topic, 1)
    assert dead_letter.value == b'{"price": "dear"}'
    assert dead_letter.key == b"k"
    headers = dict(dead_letter.headers)
    assert headers["distributary-reason"] == sent.reason.encode()
    assert headers["distributary-topic"] == orders.encode()
    assert headers["own"] == b"1"


@pytest.fixture
def terminal() -> Iterator[None]:
    """Ctrl-C counts, as it does in a terminal; a shell that starts the tests in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("terminal")
def test_ctrl_c_during_an_assignment_is_raised(configure: Configurations, topic: str) -> None:
    """The callback asks Kafka something by itself, as one does that finds out where to begin."""

    def assigned(_: object) -> None:
        consumer.committed()
        signal.raise_signal(signal.SIGINT)

    with Consumer(configure.consumer()) as consumer:
        consumer.subscribe(topic, on_assigned=assigned)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(20_000 * LIMIT)


@pytest.mark.usefixtures("terminal")
def test_ctrl_c_ends_an_endless_wait(configure: Configurations, topic: str) -> None:
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    with Consumer(configure.consumer()) as consumer:
        consumer.subscribe(topic)
        began = time.monotonic()
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(-1)
        assert 0.4 < time.monotonic() - began < 5 * LIMIT
    interrupt.join()
