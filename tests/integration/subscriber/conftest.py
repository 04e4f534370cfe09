"""Publishers of a test's own, on a store of its own or on the stack's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.processes import Process
from tests.support.servers import free_port

Start = Callable[..., Process]


@pytest.fixture
def publish(tmp_path: Path) -> Iterator[Start]:
    """Start a publisher on a store (and a Kafka); ports are its own unless they are given."""
    file = tmp_path / "distributary.toml"
    file.write_text('[store]\nsubscription_ttl = "3 s"\n')
    running: list[Process] = []

    def start(url: str, kafka: str = "", ports: tuple[int, int] | None = None) -> Process:
        port, http_port = ports or (free_port(), free_port())
        env = {
            "DISTRIBUTARY_CONFIG": str(file),
            "DISTRIBUTARY_STORE_URL": url,
            "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": kafka,
            "DISTRIBUTARY_PUBLISHER_PORT": str(port),
            "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(http_port),
            "DISTRIBUTARY_PUBLISHER_PROCESSES": "2" if ports else "1",
        }
        running.append(Process("distributary.publisher", env, tmp_path / "publish.log"))
        return running[-1]

    yield start
    for process in running:
        if process.running:
            process.stop()
