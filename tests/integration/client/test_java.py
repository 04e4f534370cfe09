"""One configuration for the Java client and this one: the same names, partitions and records."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.integration.client.conftest import CLASSES, Configurations, NewTopic, java_map
from tests.support.clock import LIMIT

from distributary.client import Consumer, Producer, read_configuration
from distributary.kafka.client_properties import BEYOND_JAVA, PROPERTIES

pytestmark = pytest.mark.slow

JAVA = sorted(
    row.name for row in PROPERTIES.values() if row.handling != "librdkafka" and row.name not in BEYOND_JAVA
)
SAMPLES: dict[str, Any] = {
    "acks": "all",
    "auto.offset.reset": "none",
    "bootstrap.servers": "127.0.0.1:9092",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.type": "zstd",
    "group.protocol": "classic",
    "isolation.level": "read_committed",
    "key.deserializer": CLASSES + "ByteArrayDeserializer",
    "key.serializer": CLASSES + "ByteArraySerializer",
    "value.deserializer": CLASSES + "ByteArrayDeserializer",
    "value.serializer": CLASSES + "ByteArraySerializer",
    "metadata.recovery.strategy": "rebootstrap",
    "metric.reporters": [],
    "interceptor.classes": [],
    "partition.assignment.strategy": [
        "org.apache.kafka.clients.consumer.RangeAssignor",
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    ],
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    "sasl.jaas.config": 'org.apache.kafka.X required username="u" password="p";',
    "sasl.mechanism": "PLAIN",
    "security.protocol": "PLAINTEXT",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "delivery.timeout.ms": 40_000,
    "request.timeout.ms": 30_000,
    "retries": 3,
    "max.in.flight.requests.per.connection": 5,
    "metrics.recording.level": "INFO",
    "session.timeout.ms": 45_000,
    "heartbeat.interval.ms": 3_000,
    "max.poll.interval.ms": 300_000,
    "sasl.login.class": None,
    "sasl.login.callback.handler.class": None,
    "sasl.client.callback.handler.class": None,
    "ssl.engine.factory.class": None,
    "metadata.max.idle.ms": 300_000,
    "transaction.timeout.ms": 30_000,
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.zstd.level": -5,
    "sasl.login.refresh.min.period.seconds": 60,
    "sasl.login.refresh.window.factor": 0.8,
    "sasl.login.refresh.window.jitter": 0.05,
}
# What belongs to one of the two protocols of groups is refused with the other, on both sides.
OTHER_PROTOCOL = {
    "classic": ("group.remote.assignor",),
    "consumer": ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"),
}
ONLY_OURS = {"producer.type": "sync", "socket.keepalive.enable": True, "statistics.interval.ms": 0}


def sample(name: str) -> Any:
    """A value that the property takes."""
    if name in SAMPLES:
        return SAMPLES[name]
    return {"integer": 1000, "number": 0.1, "boolean": True, "list": ["a"], "string": "x"}[
        PROPERTIES[name].kind
    ]


def everything(side: str, protocol: str) -> str:
    """A configuration with every documented property of a side, and with what Java does not know."""
    rows = [PROPERTIES[name] for name in JAVA if PROPERTIES[name].side in (side, "both")]
    chosen = {row.name: sample(row.name) for row in rows}
    for name in OTHER_PROTOCOL[protocol]:
        chosen.pop(name, None)
    if side == "consumer":
        chosen["group.protocol"] = protocol
    kind = {"producer": "KafkaProducerConfig", "consumer": "KafkaConsumerConfig"}[side]
    return json.dumps({"Type": kind, "Properties": {**chosen, **ONLY_OURS}})


def java_class(jvm: Any, side: str) -> Any:
    clients = jvm.org.apache.kafka.clients
    return {"producer": clients.producer.ProducerConfig, "consumer": clients.consumer.ConsumerConfig}[side]


@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_table_has_every_name_that_java_has(jvm: Any, side: str) -> None:
    names = set(java_class(jvm, side).configNames())
    known = {name for name in JAVA if PROPERTIES[name].side in (side, "both")}
    assert names == known


@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_types_are_those_of_java(jvm: Any, side: str) -> None:
    kinds = {
        "SHORT": "integer",
        "INT": "integer",
        "LONG": "integer",
        "DOUBLE": "number",
        "BOOLEAN": "boolean",
    }
    keys = java_class(jvm, side).configDef().configKeys()
    for name in JAVA:
        if PROPERTIES[name].side in (side, "both"):
            java = keys[name].type().name()
            wanted = kinds.get(java, "list" if java == "LIST" else "string")
            assert name == "bootstrap.servers" or PROPERTIES[name].kind == wanted, name


@pytest.mark.parametrize(
    ("side", "protocol"), [("producer", "classic"), ("consumer", "classic"), ("consumer", "consumer")]
)
def test_all_properties_together_are_valid_for_both_clients(jvm: Any, side: Any, protocol: str) -> None:
    text = everything(side, protocol)
    found = read_configuration(text, side)
    java_class(jvm, side)(java_map(jvm, found.java()))
    if side == "producer":
        Producer(text).close()
    else:
        Consumer(text).close()


def test_key_chooses_the_same_partition_as_in_java(
    jvm: Any, configure: Configurations, new_topic: NewTopic
) -> None:
    topic, count = new_topic(7), 10_000
    draw = random.Random(5)
    keys = [b"", b"\x00", *(draw.randbytes(draw.randrange(1, 40)) for _ in range(count - 3))]
    choose = jvm.org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey
    where: dict[bytes, int] = {}
    with Producer(configure.producer(producer_type="async", linger_ms=5)) as producer:
        for number, key in enumerate(keys):
            producer.send(topic, str(number).encode(), key=key)
        for _ in range(200):
            producer.send(topic, b"", key=None)
    with Consumer(configure.consumer(max_poll_records=5000)) as consumer:
        consumer.subscribe(topic)
        unkeyed = set()
        read = 0
        while read < len(keys) + 200:
            records = consumer.receive(20 * LIMIT)
            assert records
            read += len(records)
            for record in records:
                if record.key is None:
                    unkeyed.add(record.partition)
                else:
                    where[record.key] = record.partition
    wrong = [key for key in where if choose(bytearray(key), 7) != where[key]]
    assert len(where) > 9_900
    assert b"" in where
    assert not wrong
    assert unkeyed  # null keys choose no fixed partition, in Java as here


def test_same_configuration_exchanges_records_both_ways(
    jvm: Any, configure: Configurations, topic: str
) -> None:
    serial = {
        "key_serializer": CLASSES + "StringSerializer",
        "value_serializer": CLASSES + "StringSerializer",
    }
    written = json.dumps(
        configure.producer(None, acks="all", retries=0, batch_size=16384, linger_ms=1, **serial)
    )
    clients = jvm.org.apache.kafka.clients
    java = clients.producer.KafkaProducer(java_map(jvm, read_configuration(written, "producer").java()))
    java.send(clients.producer.ProducerRecord(topic, "k", "from Java")).get()
    java.close()
    with Producer(written) as producer:
        producer.send_string(topic, "from here", key="k")
    deserial = dict.fromkeys(("key_deserializer", "value_deserializer"), CLASSES + "StringDeserializer")
    read = json.dumps(configure.consumer(**deserial))
    with Consumer(read) as consumer:
        consumer.subscribe(topic)
        found: list[str] = []
        while len(found) < 2:
            found += consumer.pollString(20_000 * LIMIT)
    assert found == ["from Java", "from here"]
    again = json.loads(read)  # in a group of its own, or it would go on where the other was
    again["Properties"]["group.id"] += "-java"
    reader = clients.consumer.KafkaConsumer(java_map(jvm, read_configuration(again, "consumer").java()))
    reader.subscribe([topic])
    values: list[str] = []
    for _ in range(100):
        batch = reader.poll(jvm.java.time.Duration.ofMillis(200)).iterator()
        while batch.hasNext():
            values.append(batch.next().value())
        if len(values) == 2:
            break
    reader.close()
    assert values == ["from Java", "from here"]
