"""The shared broker, and one that can be killed and started again."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.clock import LIMIT
from tests.support.servers import free_port
from tests.support.stack import RunningStack

from distributary.config.sections import Kafka
from distributary.kafka import client
from distributary.kafka.broker import Broker
from distributary.kafka.topics import wait_for_kafka
from distributary.setup import jars, java


class RunningBroker:
    """An embedded broker, run by hand."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker(
            folder, folder / "kafka.log", java.find().path, jars.ensure("kafka"), free_port(), free_port()
        )
        self.kafka = Kafka(bootstrap_servers=self.broker.address)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it; return the id of the cluster that answers."""
        for command in self.broker.prepare():
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60 * LIMIT)
        self._process = subprocess.Popen(
            self.broker.command(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        return wait_for_kafka(self.kafka, 60 * LIMIT)

    def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(30 * LIMIT)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker of a test's own, to be killed."""
    running = RunningBroker(tmp_path)
    running.start()
    yield running
    # 143: a JVM that ran its shutdown hooks after SIGTERM.
    assert running.stop() in (0, 143)
    said = running.broker.log.read_text().lower()
    assert "shutdown completed" in said or "shut down" in said


@pytest.fixture(scope="session")
def kafka(stack: RunningStack) -> Kafka:
    """The shared broker, with a commands topic of these tests' own."""
    name = f"commands-{uuid.uuid4().hex[:8]}"
    return Kafka(bootstrap_servers=stack.config.kafka.bootstrap_servers, commands_topic=name)


@pytest.fixture(scope="session")
def admin(kafka: Kafka) -> AdminClient:
    return client.admin(kafka)


@pytest.fixture
def name() -> str:
    """A topic's name that nobody else has."""
    return f"t-{uuid.uuid4().hex[:10]}"
