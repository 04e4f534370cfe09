"""The shared broker as a client's configuration names it, and the Java client beside it."""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from tests.support.stack import RunningStack

from distributary.kafka import topics
from distributary.setup import jars, java

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
        first = {"group_id": group or f"g-{uuid.uuid4().hex[:10]}", "auto_offset_reset": "earliest"}
        return self._of("KafkaConsumerConfig", {**first, **words})

    def _of(self, kind: str, words: Settings) -> Settings:
        names = {name.replace("_", "."): value for name, value in words.items()}
        return {"Type": kind, "Properties": {"bootstrap.servers": self.servers, **names}}


@pytest.fixture
def configure(stack: RunningStack) -> Configurations:
    return Configurations(stack.config.kafka.bootstrap_servers)


@pytest.fixture
def new_topic(stack: RunningStack) -> Iterator[NewTopic]:
    """Makes topics that nobody else has; they go afterwards, so that patterns find no others."""
    admin = stack.admin()
    made: list[str] = []

    def make(partitions: int = 1) -> str:
        made.append(f"c-{uuid.uuid4().hex[:10]}")
        topics.ensure_topic(admin, made[-1], partitions)
        return made[-1]

    yield make
    for name in made:
        topics.delete_topic(admin, name)


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """A topic of three partitions."""
    return new_topic(3)


@pytest.fixture(scope="package")
def jvm() -> Iterator[Any]:
    """A JVM with the Kafka client that Spark uses."""
    ours = glob.glob(f"{jars.ensure('spark')}/*.jar")
    spark = Path(pyspark.__file__).parent / "jars"
    (py4j,) = glob.glob(f"{spark}/py4j-*.jar")
    logging = glob.glob(f"{spark}/slf4j-api-*.jar")
    path = os.pathsep.join([*ours, *logging])
    port = launch_gateway(
        jarpath=py4j, classpath=path, java_path=str(java.find().path), die_on_exit=True, javaopts=["-Xmx128m"]
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway.jvm
    gateway.shutdown()
