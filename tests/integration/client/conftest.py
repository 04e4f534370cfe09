"""The shared broker as a client's configuration names it, and the Java client beside it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.stack import RunningStack

from distributary.kafka.topics import delete_topic, ensure_topic

CLASSES = "org.apache.kafka.common.serialization."
Settings = dict[str, Any]
NewTopic = Callable[[int], str]


class Configurations:
    """Makes configurations for the shared broker; words have ``_`` for ``.``."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    def producer(self, topics: Settings | None = None, **words: Any) -> Settings:
        found = self._of("KafkaProducerConfig", words)
        return {**found, "Topics": topics} if topics else found

    def consumer(self, group: str = "", **words: Any) -> Settings:
        # Members learn of a rebalance at their next heartbeat, which is every 3 s by default.
        first = {
            "group_id": group or f"g-{uuid.uuid4().hex[:10]}",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 100,
        }
        return self._of("KafkaConsumerConfig", {**first, **words})

    def _of(self, kind: str, words: Settings) -> Settings:
        names = {name.replace("_", "."): value for name, value in words.items()}
        return {"Type": kind, "Properties": {"bootstrap.servers": self.servers, **names}}


@pytest.fixture
def configure(stack: RunningStack) -> Configurations:
    return Configurations(stack.config.kafka.bootstrap_servers)


@pytest.fixture
def new_topic(stack: RunningStack) -> Iterator[NewTopic]:
    """Creates topics that no other test uses; deletes them afterwards, so that patterns match no others."""
    admin = stack.admin()
    names: list[str] = []

    def make(partitions: int = 1) -> str:
        names.append(f"c-{uuid.uuid4().hex[:10]}")
        ensure_topic(admin, names[-1], partitions)
        return names[-1]

    yield make
    for name in names:
        delete_topic(admin, name)


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """A topic of three partitions."""
    return new_topic(3)


def java_map(jvm: Any, found: dict[str, str]) -> Any:
    """Properties as Java wants them."""
    properties = jvm.java.util.HashMap()
    for name, value in found.items():
        properties.put(name, value)
    return properties
