"""One configuration with passwords and certificates connects Java's client, as in Spark, and this one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.integration.cli.conftest import Run
from tests.integration.client.conftest import CLASSES, java_map
from tests.integration.secured.conftest import by_tls, by_tls_with_password, with_password
from tests.support.clock import LIMIT
from tests.support.secured_kafka import SecuredCluster

from distributary.client import Consumer, Producer, read_configuration

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "way", ["password", "tls", "tls with password", "tls, its certificates within the text"]
)
def test_both_clients_connect(jvm: Any, run: Run, secured: SecuredCluster, topic: str, way: str) -> None:
    properties = with_password(secured, "bob") if way == "password" else by_tls(secured, secured.ca)
    if way == "tls with password":
        properties = by_tls_with_password(secured, "bob")
    if way.endswith("text"):
        del properties["ssl.truststore.location"]
        properties["ssl.truststore.certificates"] = secured.ca.read_text()
    run("acls", "add", "--principal", "User:bob", "--producer", "--topic", topic).good()
    run("acls", "add", "--principal", "User:bob", "--consumer", "--topic", topic, "--group", "shop.j").good()
    serial = dict.fromkeys(("key.serializer", "value.serializer"), CLASSES + "StringSerializer")
    text = json.dumps({"Type": "KafkaProducerConfig", "Properties": {**properties, **serial}})
    java = jvm.org.apache.kafka.clients.producer
    theirs = java.KafkaProducer(java_map(jvm, read_configuration(text, "producer").java()))
    theirs.send(java.ProducerRecord(topic, "k", "from Java")).get()
    theirs.close()
    with Producer(text) as producer:
        producer.send_string(topic, "from here", key="k")
    reading = {**properties, "group.id": "shop.j", "auto.offset.reset": "earliest"}
    with Consumer({"Type": "KafkaConsumerConfig", "Properties": reading}) as consumer:
        consumer.subscribe(topic)
        found: list[str] = []
        while len(found) < 2:
            found += consumer.pollString(20_000 * LIMIT)
    assert found == ["from Java", "from here"]
