"""A refused connection is reported with the address, the reason and the property to check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.cli.conftest import Run
from tests.integration.secured.conftest import As, Properties, by_tls, with_password
from tests.support.clock import LIMIT
from tests.support.secured_kafka import SecuredCluster

from distributary.client import AsyncProducer, Consumer, Producer
from distributary.errors import KafkaRefused

pytestmark = pytest.mark.slow

AT_ONCE = 20 * LIMIT
AT_LAST = 0.5
"""Seconds after which a client gives up; a broker's refusal is reported at once."""

CASES: dict[str, tuple[float, Callable[[SecuredCluster], Properties], list[str]]] = {
    "a wrong password": (
        AT_ONCE,
        lambda cluster: with_password(cluster, "ann", "wrong"),
        ["Invalid username or password", "sasl.jaas.config"],
    ),
    "another mechanism": (
        AT_ONCE,
        lambda cluster: {**with_password(cluster, "ann"), "sasl.mechanism": "SCRAM-SHA-256"},
        ["SCRAM-SHA-256", "sasl.mechanism"],
    ),
    "an untrusted certificate": (
        AT_ONCE,
        lambda cluster: by_tls(cluster, cluster.strange_ca),
        ["certificate verify failed", "ssl.truststore.location"],
    ),
    "TLS to a plain port": (
        AT_LAST,
        lambda cluster: {**by_tls(cluster, cluster.ca), "bootstrap.servers": cluster.address()},
        ["does not speak TLS, and security.protocol is SSL", "Set security.protocol"],
    ),
    "a plain client to a port with TLS": (
        AT_LAST,
        lambda cluster: {"bootstrap.servers": cluster.address("SSL")},
        ["speaks TLS, and security.protocol is PLAINTEXT", "Set security.protocol"],
    ),
    "a plain client to a port with passwords": (
        AT_LAST,
        lambda cluster: {"bootstrap.servers": cluster.address("SASL_PLAINTEXT")},
        ["it may require a password", "sasl.*"],
    ),
}
Case = tuple[float, Properties, list[str]]


@pytest.fixture(params=CASES)
def barred(request: pytest.FixtureRequest, secured: SecuredCluster) -> Case:
    """A refused client, and what its error must contain."""
    limit, make, words = CASES[request.param]
    properties = make(secured)
    return limit, properties, [*words, properties["bootstrap.servers"]]


def producing(properties: Properties, **more: Any) -> dict[str, Any]:
    words = {name.replace("_", "."): value for name, value in more.items()}
    return {"Type": "KafkaProducerConfig", "Properties": {**words, **properties}}


def consuming(properties: Properties, group: str = "shop.g") -> dict[str, Any]:
    words = {"group.id": group, "auto.offset.reset": "earliest"}
    return {"Type": "KafkaConsumerConfig", "Properties": {**words, **properties}}


def assert_contains(error: BaseException, words: list[str]) -> None:
    for word in words:
        assert word in str(error), str(error)


def test_command_reports_why_it_cannot_connect(run: Run, by: As, barred: Case) -> None:
    limit, properties, words = barred
    done = run("topics", "list", "--timeout", str(limit), *by(properties)).bad(*words)
    assert "secret" not in done.err


def test_producer_reports_why_it_cannot_connect(barred: Case) -> None:
    limit, properties, words = barred
    with (
        Producer(producing(properties, max_block_ms=int(limit * 1000))) as producer,
        pytest.raises(KafkaRefused) as caught,
    ):
        producer.send("shop.orders", b"x", key="k")
    assert_contains(caught.value, ["shop.orders", *words])


def test_consumer_reports_why_it_cannot_connect(barred: Case) -> None:
    limit, properties, words = barred
    with (
        Consumer(consuming({**properties, "default.api.timeout.ms": int(limit * 1000)})) as consumer,
        pytest.raises(KafkaRefused) as caught,
    ):
        consumer.subscribe("shop.orders")
    assert_contains(caught.value, ["shop.orders", *words])


def test_valid_credentials_connect(run: Run, secured: SecuredCluster, topic: str) -> None:
    """The same certificate and passwords that the others came without."""
    run("acls", "add", "--principal", "User:bob", "--producer", "--topic", topic).good()
    run("acls", "add", "--principal", "User:bob", "--consumer", "--topic", topic, "--group", "shop.g").good()
    for properties in (by_tls(secured, secured.ca), with_password(secured, "bob")):
        with Producer(producing(properties)) as producer:
            assert producer.send(topic, b"x") is not None
    with Consumer(consuming(with_password(secured, "bob"))) as consumer:
        consumer.subscribe(topic)
        assert consumer.receive(20)


def test_client_reports_what_acls_deny(run: Run, secured: SecuredCluster, topic: str) -> None:
    run("acls", "remove", "--principal", "User:ann", "--execute")
    ann = with_password(secured, "ann")

    def send() -> KafkaRefused:
        with pytest.raises(KafkaRefused) as caught, Producer(producing(ann)) as producer:
            producer.send(topic, b"x", key="k1")
        return caught.value

    assert_contains(send(), ["'k1'", topic, "may not use that topic", "Ask for an ACL on the topic"])
    run("acls", "add", "--principal", "User:ann", "--operation", "read", "--topic", topic).good()
    assert_contains(send(), ["'k1'", topic, "may not write any topic", "Ask for an ACL to write the topic"])
    with Consumer(consuming(ann)) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(KafkaRefused) as caught:
            consumer.receive(20)
    assert_contains(caught.value, ["group shop.g", "may not use that group", "Ask for an ACL on the group"])
    run("acls", "add", "--principal", "User:ann", "--operation", "write", "--topic", f"{topic}-else").good()
    assert_contains(send(), ["'k1'", topic, "may not use that topic"])
    with (
        pytest.raises(KafkaRefused) as caught,
        Producer(producing(ann, transactional_id="shop-1")) as producer,
        producer.transaction(),
    ):
        pass
    assert_contains(caught.value, ["transactional.id", "Ask for an ACL"])


async def test_fatal_error_ends_every_waiting_send(run: Run, secured: SecuredCluster, topic: str) -> None:
    await asyncio.to_thread(run, "acls", "remove", "--principal", "User:ann", "--execute")
    words = ("acls", "add", "--principal", "User:ann", "--operation", "read", "--topic", topic)
    (await asyncio.to_thread(run, *words)).good()
    async with AsyncProducer(producing(with_password(secured, "ann"))) as producer:
        found = await asyncio.wait_for(
            asyncio.gather(*(producer.send(topic, b"x") for _ in range(3)), return_exceptions=True), 20
        )
    assert [type(one) for one in found] == [KafkaRefused] * 3
    ann = producing(with_password(secured, "ann"), producer_type="async", linger_ms=60_000)
    with pytest.raises(KafkaRefused), Producer(ann) as queued:
        queued.send(topic, b"x")
