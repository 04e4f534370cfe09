"""What the integration tests share: the stack's own store, a server apart for those that kill it, a JVM."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
import redis
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from tests.support.servers import StoreServer
from tests.support.stack import RunningStack

from distributary.setup import jars, java
from distributary.setup.store_server import bundled


@dataclass(frozen=True)
class Database:
    """A database of its own on the shared server: empty at first."""

    url: str


@pytest.fixture
def database(stack: RunningStack) -> Iterator[Database]:
    """Where a test may write as it likes without a stack's parts looking on."""
    found = Database(f"{stack.config.store.url.rsplit('/', 1)[0]}/1")
    with redis.Redis.from_url(found.url) as admin:
        admin.flushdb()
        yield found
        admin.flushdb()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    """A Valkey of a test's own, to be killed."""
    folder = tmp_path / "store"
    folder.mkdir()
    binary = bundled()
    assert binary is not None
    server = StoreServer(binary, folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
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
