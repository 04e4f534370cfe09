"""The shared broker, and one that can be killed and started again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.broker import RunningBroker
from tests.support.stack import RunningStack

from distributary.config.sections import Kafka
from distributary.kafka import librdkafka


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker of a test's own, to be killed."""
    running = RunningBroker(tmp_path)
    running.start()
    yield running
    # 143: a JVM that ran its shutdown hooks after SIGTERM.
    assert running.stop() in (0, 143)
    log = running.broker.log.read_text().lower()
    assert "shutdown completed" in log or "shut down" in log


@pytest.fixture(scope="session")
def kafka(stack: RunningStack) -> Kafka:
    """The shared broker, with a commands topic of these tests' own."""
    name = f"commands-{uuid.uuid4().hex[:8]}"
    return Kafka(bootstrap_servers=stack.config.kafka.bootstrap_servers, commands_topic=name)


@pytest.fixture(scope="session")
def admin(kafka: Kafka) -> AdminClient:
    return librdkafka.admin(kafka)


@pytest.fixture
def name() -> str:
    """A topic name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:10]}"
