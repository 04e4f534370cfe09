"""Replicas on two brokers: moved, described, and commands while one of the two is silent."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Run
from tests.support.clock import LIMIT
from tests.support.secured_kafka import SecuredCluster

from distributary.client import Consumer, Producer
from distributary.errors import KafkaUnavailable, ProducerFenced

pytestmark = pytest.mark.slow


def replicas(run: Run, topic: str) -> list[list[int]]:
    (seen,) = run("topics", "describe", topic, "--json").good().json
    return [one["replicas"] for one in seen["partitions"]]


def settled(run: Run, topic: str) -> list[list[int]]:
    """Where the replicas are, once nothing is under way any more."""
    deadline = time.monotonic() + 20 * LIMIT
    while run("reassign", topic, "--list", "--json").good().json:
        assert time.monotonic() < deadline
    return replicas(run, topic)


def send_until_acknowledged(producer: Producer, topic: str, value: bytes) -> None:
    """Send again while the error says that a retry helps.

    With a short delivery time-out the first record may fail though both brokers are there: a broker's first
    producer id is fetched from the controller, and the client asks for it again every 500 ms. Later, it
    reconnects to a broker that was away with a back-off of up to 10 s (`reconnect.backoff.max.ms`).
    """
    deadline = time.monotonic() + 20 * LIMIT
    while True:
        try:
            producer.send(topic, value, partition=0)
            return
        except KafkaUnavailable as error:
            if not error.retry or time.monotonic() > deadline:
                raise


@pytest.fixture
def alone(run: Run) -> str:
    """A topic of two partitions with a few records, each on one broker."""
    name = f"test.t{uuid.uuid4().hex[:10]}"
    run("topics", "create", name, "--partitions", "2", "--replication-factor", "1").good()
    run("produce", name, "--keys", stdin="".join(f"{n}:{n}\n" for n in range(20))).good()
    return name


def test_reassignment_moves_replicas(run: Run, alone: str, tmp_path: Path) -> None:
    before = run("consume", alone, "--from-beginning", "--until-end").good().out
    planned = run("reassign", alone, "--brokers", "2", "--json").good().json
    assert {tuple(one["replicas"]) for one in planned["moves"]["partitions"]} == {(2,)}
    assert sorted(replicas(run, alone)) == [[1], [2]], "nothing is done without --execute"
    done = run("reassign", alone, "--brokers", "2", "--execute").good()
    assert "--list" in done.err
    assert settled(run, alone) == [[2], [2]]
    assert "nothing has to move" in run("reassign", alone, "--brokers", "2").good().err
    run("reassign", alone, "--brokers", "1,2", "--replication-factor", "2", "--execute").good()
    assert [sorted(one) for one in settled(run, alone)] == [[1, 2], [1, 2]]
    assert sorted(one[0] for one in replicas(run, alone)) == [1, 2], "each leads one"
    plan = {"version": 1, "partitions": [{"topic": alone, "partition": 0, "replicas": [1]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    run("reassign", "--reassignment-json-file", "plan.json", "--execute").good()
    assert settled(run, alone)[0] == [1]
    after = run("consume", alone, "--from-beginning", "--until-end").good().out
    assert sorted(after.split()) == sorted(before.split()), "no record was lost on the way"
    run("reassign", alone, "--brokers", "1,3").bad("no such broker: 3", "1, 2", status=2)


def test_topic_is_described_as_by_kafkas_tool(run: Run, topic: str) -> None:
    rows = [line.split() for line in run("topics", "describe", topic).good().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["0", "1"]
    for _, leader, replica_list, in_sync, *_ in rows:
        assert leader == replica_list.split(",")[0]
        assert sorted(replica_list.split(",")) == in_sync.split(",") == ["1", "2"]
    run("topics", "create", f"{topic}-x", "--replication-factor", "3").bad("replication factor", "brokers")


def test_commands_report_a_silent_broker(run: Run, secured: SecuredCluster, topic: str, alone: str) -> None:
    run("reassign", alone, "--brokers", "2", "--execute").good()
    settled(run, alone)
    run("produce", topic, stdin="x\n").good()
    words = {"bootstrap.servers": secured.address(), "delivery.timeout.ms": 700, "request.timeout.ms": 500}
    producer = Producer({"Type": "KafkaProducerConfig", "Properties": words})
    send_until_acknowledged(producer, alone, b"x")
    with secured.without(2):
        (seen,) = run("topics", "describe", alone, "--json").good().json
        assert [one["leader"] for one in seen["partitions"]] == [None, None]
        assert [one["end"] for one in seen["partitions"]] == [None, None]
        assert "none" in run("topics", "describe", alone, "--unavailable-partitions").good().out
        assert "2,1" in run("topics", "describe", topic, "--under-replicated-partitions").good().out
        with pytest.raises(KafkaUnavailable) as caught:
            producer.send(alone, b"x", partition=0, key="k")
        for word in (f"{alone} partition 0", "'k'", secured.address(), "Check that it runs"):
            assert word in str(caught.value)
        run("produce", alone, "--set", "delivery.timeout.ms=700", stdin="x\n").bad(
            "line 1", alone, secured.address(), "Check that it runs"
        )
        run("consume", alone, "--from-beginning", "--until-end").bad(alone, "eader", "topics describe")
        # Partitions of the other broker still work.
        assert run("consume", topic, "--from-beginning", "--until-end").good().out == "x\n"
        assert run("reassign", alone, "--brokers", "1", "--json").good().json["moves"]["partitions"]
    send_until_acknowledged(producer, alone, b"back")
    producer.close()
    settings = {
        "bootstrap.servers": secured.address(),
        "group.id": "shop.back",
        "auto.offset.reset": "latest",
    }
    with Consumer({"Type": "KafkaConsumerConfig", "Properties": settings}) as consumer:
        consumer.subscribe(alone, start="earliest")
        found: list[str] = []
        while "back" not in found:
            records = consumer.receive(20 * LIMIT)
            assert records
            found += [one.text for one in records]


def test_transactional_id_is_retriable_while_its_last_transaction_completes(
    run: Run, secured: SecuredCluster, topic: str
) -> None:
    """Its end must be written to two brokers, one of which is away: until then no producer can begin."""
    run("topics", "alter", topic, "--set", "min.insync.replicas=2").good()
    words = {"bootstrap.servers": secured.address(), "transactional.id": topic}
    first = Producer({"Type": "KafkaProducerConfig", "Properties": words})
    with first.transaction():
        first.send(topic, b"whole", partition=0)
    run("reassign", "__transaction_state", "--brokers", "1", "--execute").good()
    settled(run, "__transaction_state")
    torn = first.transaction()
    torn.__enter__()
    first.send(topic, b"torn", partition=0)
    first.flush()
    limit = int(1_500 * LIMIT)  # long enough to hear from the coordinator why it must wait
    # By the broker that stays: librdkafka waits 10 s for one that falls silent while it connects to it.
    words |= {"bootstrap.servers": secured.address(brokers=[1]), "max.block.ms": str(limit)}
    second = Producer({"Type": "KafkaProducerConfig", "Properties": words})
    with secured.without(2):
        with pytest.raises(KafkaUnavailable, match="still being completed") as caught:
            second.prepare()
        assert caught.value.retry
    deadline = time.monotonic() + 20 * LIMIT
    while True:
        try:
            second.prepare()
            break
        except KafkaUnavailable:
            if time.monotonic() > deadline:
                raise
    with second.transaction():
        second.send(topic, b"next", partition=0)
    second.close()
    with pytest.raises(ProducerFenced):
        torn.__exit__(None, None, None)
    first.close()
    # Not up to the end: a commit is acknowledged before its marker is in the topic, where the end is then.
    seen = run("consume", topic, "--from-beginning", "--max-messages", "2").good().out.split()
    assert seen == ["whole", "next"]
