"""A small Spark of the tests' own, with the reducers' settings, for what needs no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import SparkContext
from tests.support.clock import LIMIT

from distributary.config import load
from distributary.reducers.spark_session import spark_session
from distributary.setup import class_archive, java
from distributary.setup.jars import ensure


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark with two slots."""
    path = tmp_path_factory.mktemp("spark") / "distributary.toml"
    path.write_text('[spark]\nslots = 2\nmemory = "512m"\n')
    config = load(path, env={})
    class_archive.ensure(
        java.find(), print
    )  # `make setup` has made it; where that was not run, it is made now
    session = spark_session(config, ensure("spark"))
    yield session
    session.stop()
    _end_jvm()


def _end_jvm() -> None:
    """End the JVM with its session: it would stay until the tests' own process ends, and a moment longer."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30 * LIMIT)
    SparkContext._gateway = SparkContext._jvm = None
