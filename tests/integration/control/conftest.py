from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.processes import Process
from tests.support.servers import StoreServer, free_port

from distributary.auth.token_issuer import create_stack_token
from distributary.control.api_client import ControlClient

TOML = """
[[feeds]]
name = "odds"
topic = "sportsbook.odds"
"""

Start = Callable[[str], Process]


def client_of(process: Process) -> ControlClient:
    """Call a control API by the token of its data folder."""
    token = create_stack_token(process.folder / ".distributary")
    return ControlClient(process.addresses["http"], headers=lambda: {"Authorization": f"Bearer {token}"})


@pytest.fixture
def bootstrap_servers() -> str:
    """The address of Kafka: nothing listens there unless a test has a broker."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def start(tmp_path: Path, store: StoreServer, bootstrap_servers: str) -> Iterator[Start]:
    """Start parts, each kind on ports of its own that stay the same when it is started again."""
    file = tmp_path / "distributary.toml"
    file.write_text(TOML)
    env = {
        "DISTRIBUTARY_CONFIG": str(file),
        "DISTRIBUTARY_STORE_URL": store.url,
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
        "DISTRIBUTARY_CONTROL_PORT": str(free_port()),
        "DISTRIBUTARY_PUBLISHER_PORT": str(free_port()),
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT": str(free_port()),
    }
    running: list[Process] = []

    def launch(module: str) -> Process:
        running.append(Process(module, env, tmp_path / f"{module}.log"))
        return running[-1]

    yield launch
    for process in running:
        if process.running:
            process.stop()
