"""Which variables of the environment the processes of a stack get."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_components import SERVE, EventRecorder
from tests.support.servers import free_port

from distributary.config import Config, Kafka, Spark, Store
from distributary.stack import embedded_stack, prerequisites, stack_components
from distributary.stack.child_process import Child
from distributary.stack.component import Launch
from distributary.stack.embedded_stack import Stack
from distributary.stack.process_environment import chosen_settings, server_environment, service_environment
from distributary.stack.stack_components import Service
from distributary.store.embedded_server import EmbeddedServer

HARMLESS = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "TZ": "UTC",
    "TMPDIR": "/tmp",
    "XDG_CACHE_HOME": "/c",
    "JAVA_HOME": "/j",
    "LD_LIBRARY_PATH": "/l",
    "SSL_CERT_FILE": "/s",
    "https_proxy": "http://p",
    "NO_PROXY": "h",
    "PYTHONPATH": "/p",
}
SETTINGS = {"DISTRIBUTARY_KAFKA_PORT": "1", "DISTRIBUTARY_SCHEMAS_URL": "http://s"}
SPARKS = {"SPARK_LOCAL_DIRS": "/d", "PYSPARK_PYTHON": "/p", "HADOOP_CONF_DIR": "/h"}
PERMISSION = {"DISTRIBUTARY_AUTH_HMAC_SECRET": "hush", "DISTRIBUTARY_AUTH_KEYS": "hush"}
CALLERS = {"DISTRIBUTARY_TOKEN": "hush", "DISTRIBUTARY_API_KEY": "hush"}
FOREIGN = {"AWS_SECRET_ACCESS_KEY": "hush", "GITHUB_TOKEN": "hush", "DATABASE_URL": "hush"}
ALL = {**HARMLESS, **SETTINGS, **SPARKS, **PERMISSION, **CALLERS, **FOREIGN}


def test_servers_get_no_setting() -> None:
    assert server_environment(ALL) == HARMLESS


def test_services_get_settings_but_no_credentials_of_the_user() -> None:
    for name in ("control", "gateway", "publisher-2", "socketio"):
        assert service_environment(name, ALL, ["AWS_*"]) == HARMLESS | SETTINGS | PERMISSION


def test_reducers_get_configured_variables_but_no_auth_setting() -> None:
    assert service_environment("reducers", ALL) == HARMLESS | SETTINGS | SPARKS
    assert service_environment("reducers", ALL, ["AWS_*", "DATABASE_URL"]) == HARMLESS | SETTINGS | SPARKS | {
        "AWS_SECRET_ACCESS_KEY": "hush",
        "DATABASE_URL": "hush",
    }


def test_no_pattern_passes_on_what_signs_tokens() -> None:
    assert (
        service_environment("reducers", ALL, ["*", "DISTRIBUTARY_AUTH_*"])
        == HARMLESS | SETTINGS | SPARKS | FOREIGN
    )


async def test_started_processes_get_no_planted_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (PERMISSION | CALLERS | FOREIGN).items():
        monkeypatch.setenv(name, value)
    given: dict[str, Mapping[str, str]] = {}
    start = Child.start.__func__  # type: ignore[attr-defined]

    async def recorded(kind: type[Child], /, launch: Launch, log: Path, **more: Any) -> Child:
        formats = "format" in launch.argv
        given[launch.env["DISTRIBUTARY_COMPONENT"] + (" before" if formats else "")] = launch.env
        if "DISTRIBUTARY_DATA_DIR" not in launch.env:  # a server: something that ends well instead
            code = "pass" if formats else "import signal; signal.pause()"
            launch = replace(launch, argv=[sys.executable, "-c", code])
        child: Child = await start(kind, launch, log, **more)
        return child

    async def there(*args: Any, **more: Any) -> None: ...

    async def ours(*args: Any) -> None: ...

    monkeypatch.setattr(Child, "start", classmethod(recorded))
    monkeypatch.setattr(EmbeddedServer, "wait_ready", there)
    monkeypatch.setattr(stack_components, "_cluster", ours)
    monkeypatch.setattr(embedded_stack, "wait_for_kafka", lambda *args: None)
    monkeypatch.setattr(embedded_stack, "create_topics", lambda config: None)
    monkeypatch.setattr(embedded_stack, "apply", lambda config: [])
    tools = prerequisites.Found(
        prerequisites.BrokerTools(Path("/java"), tmp_path),
        prerequisites.ServerTools(Path("/valkey"), "valkey"),
        Path("/j"),
    )
    monkeypatch.setattr(prerequisites, "check", lambda *args: tools)
    names = ("control", "gateway", "reducers", "publisher")
    fakes = [Service(name, [sys.executable, "-c", SERVE]) for name in names]
    config = Config(
        Kafka(port=free_port()), Store(port=free_port()), Spark(environment=("GITHUB_*",)), data_dir=tmp_path
    )
    async with Stack(config, listener=EventRecorder(), services=fakes) as running:
        await running.wait_ready()
        mark = running.state.stack
    assert set(given) == {"kafka before", "kafka", "store", *names}
    secrets = {part: {name for name, value in env.items() if value == "hush"} for part, env in given.items()}
    assert secrets == {
        "kafka before": set(),
        "kafka": set(),
        "store": set(),
        "reducers": {"GITHUB_TOKEN"},
        **{name: set(PERMISSION) for name in ("control", "gateway", "publisher")},
    }
    for server in ("kafka", "store"):
        ours_of = {name for name in given[server] if name.startswith("DISTRIBUTARY_")}
        assert ours_of == {"DISTRIBUTARY_STACK", "DISTRIBUTARY_COMPONENT"}
        assert given[server]["DISTRIBUTARY_STACK"] == mark
    assert all(env["PATH"] == os.environ["PATH"] for env in given.values())


def test_chosen_settings_cover_every_listening_port_and_the_static_files() -> None:
    config = Config()
    config = replace(config, publisher=replace(config.publisher, static_dir="/page"))
    chosen = chosen_settings(config, "publisher", secure=False)
    ports = {name for name in chosen if name.endswith("PORT")}
    assert ports == {
        "DISTRIBUTARY_CONTROL_PORT",
        "DISTRIBUTARY_GATEWAY_PORT",
        "DISTRIBUTARY_PUBLISHER_PORT",
        "DISTRIBUTARY_PUBLISHER_HTTP_PORT",
        "DISTRIBUTARY_SOCKETIO_PORT",
    }
    assert chosen["DISTRIBUTARY_PUBLISHER_STATIC_DIR"] == "/page"
