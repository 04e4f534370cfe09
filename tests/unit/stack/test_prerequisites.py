"""Which tools a stack looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.config import Config, Kafka, Store
from distributary.setup import jars, java, store_server
from distributary.setup.java import Java
from distributary.setup.store_server import StoreServer
from distributary.stack import prerequisites
from distributary.stack.stack_components import Service

SPARK = Service("reducers", ["x"], jars=("spark",))


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []

    def runtime(say: object) -> Java:
        seen.append("java")
        return Java(Path("/j/bin/java"), "17")

    def folder(name: str) -> Path:
        seen.append(name)
        return Path("/jars") / name

    def server() -> StoreServer:
        seen.append("store")
        return StoreServer(Path("/valkey"), "valkey", "9")

    monkeypatch.setattr(java, "ensure", runtime)
    monkeypatch.setattr(jars, "ensure", folder)
    monkeypatch.setattr(store_server, "find", server)
    return seen


def test_embedded_stack_requires_all_tools(looked_for: list[str]) -> None:
    found = prerequisites.check(Config(), [SPARK], print)
    assert sorted(looked_for) == ["java", "kafka", "spark", "store"]
    assert found.broker == prerequisites.BrokerTools(Path("/j/bin/java"), Path("/jars/kafka"))
    assert found.server == prerequisites.ServerTools(Path("/valkey"), "valkey")
    assert found.java_home == Path("/j")


def test_external_kafka_and_store_require_no_tools(looked_for: list[str]) -> None:
    config = Config(kafka=Kafka(bootstrap_servers="k:1"), store=Store(url="redis://s"))
    assert prerequisites.check(config, [], print) == prerequisites.Found(None, None, None)
    assert looked_for == []
    assert prerequisites.check(config, [SPARK], print) == prerequisites.Found(None, None, Path("/j"))
    assert sorted(looked_for) == ["java", "spark"]
