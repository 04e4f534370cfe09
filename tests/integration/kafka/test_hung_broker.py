"""A broker that hangs or comes back: a read gets an error or an answer, never an empty list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.broker import RunningBroker

from distributary.errors import KafkaUnavailable
from distributary.kafka import client, groups, topics, trouble
from distributary.kafka.cluster import Cluster

pytestmark = pytest.mark.slow


def test_every_read_raises_while_the_broker_hangs(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(broker.kafka, client.admin(broker.kafka))
    admin = cluster.admin
    topics.ensure_topic(admin, "odds", 2)
    reads: dict[str, Callable[[], Any]] = {
        "ends": lambda: topics.end_offsets(admin, "odds", [0, 1]),
        "starts": lambda: topics.earliest_offsets(admin, "odds", [0, 1]),
        "ends by a described topic": lambda: topics.end_offsets(admin, "odds"),
        "at a time": lambda: topics.offsets_at(admin, "odds", 1_000),
        "topics": lambda: topics.list_topics(admin),
        "settings": lambda: topics.topic_config(admin, "odds"),
        "groups": lambda: groups.listing(cluster),
        "a group": lambda: groups.describe(cluster, "nobody"),
    }
    for read in reads.values():
        read()
    monkeypatch.setattr(topics, "TIMEOUT", 1.0)
    monkeypatch.setattr(trouble, "LIMIT", 1.0)
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


def test_offsets_are_read_after_an_election_that_the_client_has_not_heard_of(broker: RunningBroker) -> None:
    admin = client.admin(broker.kafka)
    topics.ensure_topic(admin, "elected", 1)
    before = topics.leader_epochs(admin, "elected", [0])
    broker.kill()
    broker.start()
    assert topics.leader_epochs(admin, "elected", [0])[0] > before[0]
