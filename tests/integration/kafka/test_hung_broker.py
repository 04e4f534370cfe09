"""A broker that hangs or comes back: a read gets an error or an answer, never an empty list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.broker import RunningBroker

from distributary.errors import KafkaUnavailable
from distributary.kafka import group_admin, librdkafka, topic_offsets
from distributary.kafka.admin import Cluster
from distributary.kafka.topics import ensure_topic, list_topics, topic_config

pytestmark = pytest.mark.slow


def test_every_read_raises_while_the_broker_hangs(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(broker.kafka, librdkafka.admin(broker.kafka))
    admin = cluster.admin
    ensure_topic(admin, "odds", 2)
    reads: dict[str, Callable[[], Any]] = {
        "ends": lambda: topic_offsets.end_offsets(admin, "odds", [0, 1]),
        "starts": lambda: topic_offsets.earliest_offsets(admin, "odds", [0, 1]),
        "ends by a described topic": lambda: topic_offsets.end_offsets(admin, "odds"),
        "at a time": lambda: topic_offsets.offsets_at(admin, "odds", 1_000),
        "topics": lambda: list_topics(admin),
        "settings": lambda: topic_config(admin, "odds"),
        "groups": lambda: group_admin.list_groups(cluster),
        "a group": lambda: group_admin.describe_group(cluster, "missing"),
    }
    for read in reads.values():
        read()
    monkeypatch.setattr(librdkafka, "REQUEST_LIMIT", 1.0)
    broker.pause()
    answered = {}
    try:
        for name, read in reads.items():
            try:
                answered[name] = read()
            except KafkaUnavailable:
                continue
    finally:
        broker.resume()
    assert answered == {}


def test_offsets_are_read_after_an_election_unknown_to_the_client(broker: RunningBroker) -> None:
    admin = librdkafka.admin(broker.kafka)
    ensure_topic(admin, "elected", 1)
    before = topic_offsets.leader_epochs(admin, "elected", [0])
    broker.kill()
    broker.start()
    assert topic_offsets.leader_epochs(admin, "elected", [0])[0] > before[0]
