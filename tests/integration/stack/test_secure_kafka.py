"""``kafka.secure``: an existing folder becomes secure, and each component has only the rights it needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its exports are not declared
from tests.integration.cli.conftest import Run, caller
from tests.support.clock import LIMIT
from tests.support.stack import Feeding, RunningStack

from distributary.config import load
from distributary.config.embedded_defaults import kafka_secret, scram_login
from distributary.config.private_files import read_secret
from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka import librdkafka, quota_admin
from distributary.kafka.admin import Cluster, wait_for_kafka
from distributary.kafka.changed_keys import ChangedKeys
from distributary.kafka.outgoing_record import OutgoingRecord
from distributary.kafka.record_router import create_router
from distributary.kafka.topic_writer import TopicWriter
from distributary.kafka.topics import ensure_topic, get_topic, list_topics
from distributary.model.position import Mark
from distributary.stack.embedded_servers import INTERNAL, users

SETTINGS = '[spark]\nmemory = "1g"\n[kafka]\nsecure = {secure}\n'


def configure(folder: Path, *, secure: bool) -> None:
    (folder / "distributary.toml").write_text(SETTINGS.format(secure=str(secure).lower()))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A whole stack with a secure Kafka, over a folder whose Kafka was plain at first."""
    folder = tmp_path_factory.mktemp("secure")
    configure(folder, secure=False)
    plain = RunningStack(folder).start(services=[])
    ensure_topic(plain.admin(), "shop-orders", 2)
    plain.produce("shop-orders", [("a", {"id": "a", "n": 1})])
    plain.stop()
    plain.close()
    configure(folder, secure=True)
    running = RunningStack(folder).start()
    yield running
    running.stop()
    running.close()
    configure(folder, secure=False)
    again = RunningStack(folder).start(services=[])
    try:
        assert again.config.kafka.properties == {}
        assert len(again.read("shop-orders", 1)) == 1, "it can be switched off again, and all is kept"
        assert not kafka_secret(again.config.data_dir, "distributary").exists()
    finally:
        again.stop()
        again.close()


def login(stack: RunningStack, user: str) -> Kafka:
    password = read_secret(kafka_secret(stack.config.data_dir, user))
    assert password is not None
    return Kafka(
        bootstrap_servers=stack.config.kafka.bootstrap_servers, properties=scram_login(user, password)
    )


async def test_all_components_work_with_a_secure_kafka(secure: RunningStack) -> None:
    feeding = Feeding(secure, topic="shop-orders")
    base = secure.addresses["gateway"]
    try:
        # Keyed by another field than the record's key, so the reducers make a topic of their own.
        view = await feeding.view(key="id")
        await feeding.rows_become(view, {"a": {"id": "a", "n": 1}})
        async with aiohttp.ClientSession() as http:
            body = {"records": [{"key": "b", "value": {"id": "b", "n": 2}}, {"key": "c", "value": "no row"}]}
            kind = {"Content-Type": "application/vnd.kafka.json.v2+json"}
            async with http.post(f"{base}/topics/shop-orders", json=body, headers=kind) as reply:
                assert reply.status == 200, await reply.text()
            schema = {"schema": json.dumps({"type": "object"}), "schemaType": "JSON"}
            async with http.post(f"{base}/subjects/shop-orders-value/versions", json=schema) as reply:
                assert reply.status == 200, await reply.text()
            url = f"{secure.addresses['control']}/v1/subscriptions"
            async with http.post(url, json={"view": view, "where": "n > 1"}) as reply:
                assert reply.status in (200, 201), await reply.text()
            stream = f"{secure.addresses['http']}/v1/views/{view}/events?where=n%3E0"
            async with http.get(stream) as reply:
                assert reply.status == 200, await reply.text()
                assert await asyncio.wait_for(reply.content.readline(), 10 * LIMIT)
        await feeding.rows_become(view, {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 2}})
        assert len(await asyncio.to_thread(secure.read, "shop-orders.dead-letters", 1)) == 1
        assert len(await asyncio.to_thread(secure.read, "distributary.commands", 1)) == 1
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{secure.addresses['control']}/v1/status") as reply,
        ):
            alarms = {one["name"] for one in (await reply.json())["alarms"]}
            assert alarms <= {"dead-letters"}, "of the record that is no row, and nothing else"
    finally:
        await feeding.drop()


async def test_publisher_writes_client_publications_and_reads_them_back(secure: RunningStack) -> None:
    kafka = login(secure, "distributary-publisher")
    writer = TopicWriter(kafka, create_router(secure.config))
    try:
        first = await writer.send(OutgoingRecord("shop-orders", b'{"id": "a", "n": 1}', b"a"))
        end = await writer.send(OutgoingRecord("shop-orders", b'{"id": "a", "n": 1}', b"a"))
    finally:
        await writer.close()
    there = get_topic(librdkafka.admin(kafka), "shop-orders")
    spans = {first.partition: Mark(first.offset)}, {first.partition: Mark(end.offset + 1)}
    assert await ChangedKeys(kafka)("shop-orders", there.id, *spans, 10) == {"a"}


def test_no_output_shows_a_password(secure: RunningStack) -> None:
    data_dir = secure.config.data_dir
    passwords = [read_secret(kafka_secret(data_dir, user)) for user in (*users(), INTERNAL)]
    assert len(set(passwords)) == 6
    outputs = {path: path.read_text(errors="replace") for path in (data_dir / "logs").iterdir()}
    outputs[data_dir / "stack.json"] = (data_dir / "stack.json").read_text()
    outputs[Path("events")] = "\n".join(secure.events)
    assert not [path for path, text in outputs.items() for one in passwords if one and one in text]
    denied = [
        line for text in outputs.values() for line in text.splitlines() if "uthorization failed" in line
    ]
    assert denied == []


def test_client_without_a_password_is_rejected(secure: RunningStack) -> None:
    servers = secure.config.kafka.bootstrap_servers
    with pytest.raises((KafkaRefused, KafkaUnavailable)):
        wait_for_kafka(Kafka(bootstrap_servers=servers), 3.0, patient=False)
    wrong = Kafka(bootstrap_servers=servers, properties=scram_login("distributary", "wrong"))
    with pytest.raises(KafkaRefused, match="refuses the connection"):
        wait_for_kafka(wrong, 20 * LIMIT, patient=False)


@pytest.mark.parametrize(
    ("part", "topic"),
    [
        ("control", "shop-orders"),
        ("gateway", "distributary.commands"),
        ("reducers", "distributary.commands"),
        ("reducers", "distributary.schemas"),
        ("publisher", "distributary.schemas"),
    ],
)
def test_component_cannot_write_topics_of_another(secure: RunningStack, part: str, topic: str) -> None:
    producer = librdkafka.producer(login(secure, f"distributary-{part}"))
    failures: list[Any] = []
    producer.produce(topic, "forged", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(20 * LIMIT) == 0
    assert failures[0] is not None
    assert "uthorization failed" in failures[0].str()


@pytest.mark.parametrize(
    ("part", "group"),
    [
        ("control", "distributary.lookup"),
        ("publisher", "distributary.replay"),
        ("reducers", "distributary.lookup"),
        ("reducers", "distributary-commands"),
        ("reducers", "distributary-events"),
        ("reducers", "distributary-schemas"),
        ("gateway", "anybody's"),
    ],
)
def test_components_may_use_their_own_groups(secure: RunningStack, part: str, group: str) -> None:
    consumer = librdkafka.consumer(login(secure, f"distributary-{part}"), group, enable_partition_eof=True)
    try:
        consumer.assign([TopicPartition("shop-orders", number, 0) for number in (0, 1)])
        seen: set[int | None] = set()
        while len(seen) < 2:
            message = consumer.poll(20 * LIMIT)
            assert message is not None
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            seen |= {message.partition()} if error else set()
        # Whether it may ask for a coordinator is told in a poll after that.
        later = consumer.poll(2.0)
        assert later is None or later.error() is None, later.error()
    finally:
        consumer.close()


@pytest.mark.parametrize("part", ["control", "gateway", "reducers", "publisher"])
def test_component_cannot_delete_topics_or_change_acls(secure: RunningStack, part: str) -> None:
    admin = librdkafka.admin(login(secure, f"distributary-{part}"))
    with pytest.raises(KafkaException, match="uthorization failed"):
        admin.delete_topics(["shop-orders"])["shop-orders"].result(20 * LIMIT)
    if part == "control":
        with pytest.raises(KafkaException, match="uthorization failed"):
            admin.create_topics([NewTopic("new", 1, 1)])["new"].result(20 * LIMIT)


@pytest.fixture
def run(secure: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call commands in the stack's folder; no address is named."""
    call = caller("", secure.folder, monkeypatch, capsys)
    monkeypatch.delenv("DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS")
    return call


def test_commands_find_the_login_in_the_data_folder(secure: RunningStack, run: Run) -> None:
    assert "shop-orders" in run("topics", "list").good().out
    run("produce", "--topic", "shop-other", stdin="x\n").bad("shop-other")
    assert "User:distributary-control" in run("acls", "list").good().out
    found = load(secure.folder / "distributary.toml", env={})
    assert found.kafka.properties == {}, "nothing of it is in the file"


def test_quotas_and_reassign_commands_log_in(secure: RunningStack, run: Run) -> None:
    run("quotas", "set", "--user", "ann", "--request-percentage", "50").good()
    assert "ann" in run("quotas", "list").good().out
    run("quotas", "delete", "--user", "ann").good()
    broker = secure.config.kafka.bootstrap_servers
    for properties, expected in (
        ({}, "does not respond"),
        (scram_login("distributary", "wrong"), "refuses the connection"),
        (login(secure, "distributary-publisher").properties, "uthorization"),
    ):
        kafka = Kafka(bootstrap_servers=broker, properties=properties)
        with pytest.raises((KafkaRefused, KafkaUnavailable), match=expected):
            quota_admin.describe(Cluster(kafka, None))  # type: ignore[arg-type]


def test_users_are_added_listed_and_deleted(secure: RunningStack, run: Run) -> None:
    made = run("users", "add", "ann", "--json").good().json
    assert made["mechanism"] == "SCRAM-SHA-512"
    servers = secure.config.kafka.bootstrap_servers
    ann = Kafka(bootstrap_servers=servers, properties=scram_login("ann", made["password"]))
    wait_for_kafka(ann, 20 * LIMIT)
    assert list_topics(librdkafka.admin(ann)) == [], "she may see nothing yet"
    run("acls", "add", "--principal", "User:ann", "--operation", "describe", "--topic", "shop-orders").good()
    deadline = asyncio.run(_seen(ann))
    assert deadline == ["shop-orders"]
    listed = run("users", "list", "ann", "nobody", "--json").good().json
    assert listed == [{"name": "ann", "mechanism": "SCRAM-SHA-512", "iterations": 8192}]
    assert "distributary-reducers" in run("users", "list").good().out
    run("users", "add", "ann").bad("user ann exists already", "--replace", status=2)
    other = run("users", "add", "ann", "--replace", "--password-stdin", stdin="correct horse\n").good()
    assert "correct horse" not in other.out
    changed = Kafka(bootstrap_servers=servers, properties=scram_login("ann", "correct horse"))
    wait_for_kafka(changed, 20 * LIMIT)
    run("users", "delete", "nobody").bad("no such user: nobody", status=2)
    run("users", "delete", "ann").good()
    assert run("users", "list", "ann", "--json").good().json == []
    with pytest.raises(KafkaRefused):
        wait_for_kafka(changed, 20 * LIMIT, patient=False)


async def _seen(kafka: Kafka) -> list[str]:
    async with asyncio.timeout(10 * LIMIT):
        while not (found := list_topics(librdkafka.admin(kafka))):
            await asyncio.sleep(0.1)
        return found


def test_new_folder_is_secure_from_its_first_start_and_passwords_can_be_replaced(tmp_path: Path) -> None:
    configure(tmp_path, secure=True)
    stack = RunningStack(tmp_path).start(services=[])
    before = stack.config.kafka
    ensure_topic(stack.admin(), "kept", 1)
    stack.kill("kafka")
    wait_for_kafka(before, 60 * LIMIT)
    stack.stop()
    for user in (*users(), INTERNAL):
        kafka_secret(stack.config.data_dir, user).unlink()
    stack.start(services=[])
    try:
        assert "kept" in list_topics(stack.admin())
        assert stack.config.kafka.properties != before.properties
        old = Kafka(
            bootstrap_servers=stack.config.kafka.bootstrap_servers, properties=dict(before.properties)
        )
        with pytest.raises(KafkaRefused):
            wait_for_kafka(old, 20 * LIMIT, patient=False)
    finally:
        stack.stop()
        stack.close()
