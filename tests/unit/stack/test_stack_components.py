"""The components: how they are launched, and when they are ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.clock import LIMIT

from distributary.config.sections import Kafka
from distributary.kafka.embedded_broker import Broker
from distributary.stack import stack_components
from distributary.stack.component import Started
from distributary.stack.stack_components import kafka_component, services


def test_services_start_in_order() -> None:
    assert [service.name for service in services()] == ["control", "gateway", "reducers", "publisher"]
    assert [service.name for service in services(2)][3:] == ["publisher-1", "publisher-2"]
    assert [service.argv[-1] for service in services()] == [
        "distributary.control",
        "distributary.gateway",
        "distributary.reducers",
        "distributary.publisher",
    ]
    assert services(socketio=True)[-1].argv[-1] == "distributary.socketio_gateway"


async def test_kafka_is_not_ready_while_another_cluster_has_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["stranger", None, "stranger", "ours"])
    requested: list[str] = []

    async def cluster(kafka: Kafka) -> str | None:
        requested.append(kafka.bootstrap_servers)
        return next(answers)

    monkeypatch.setattr(stack_components, "_cluster", cluster)
    broker = Broker(tmp_path, tmp_path / "log", Path("/java"), Path("/jars"), 1111, 2222)
    component = kafka_component(broker, Kafka(), {}, tmp_path / "log")
    assert component.launch().before, "the first start formats"
    (tmp_path / "data" / "meta.properties").write_text("node.id=101\ncluster.id=ours\n")
    assert not component.launch().before
    line: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(5 * LIMIT):
        assert await component.ready(Started(1, line)) == {"kafka": "127.0.0.1:1111"}
    assert requested == ["127.0.0.1:1111"] * 4
