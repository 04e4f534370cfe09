"""The cluster that lets not everybody in, started once for this folder and ended after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import Run, caller
from tests.support.secured_kafka import PASSWORDS, SecuredCluster

Properties = dict[str, Any]
As = Callable[[Properties], tuple[str, ...]]


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Two brokers with passwords, certificates and lists."""
    cluster = SecuredCluster(tmp_path_factory.mktemp("secured"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def run(
    secured: SecuredCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Call a command as one who may do all."""
    return caller(secured.address(), tmp_path, monkeypatch, capsys)


@pytest.fixture
def by(tmp_path: Path) -> As:
    """The options with which a command connects by these properties."""

    def options(properties: Properties) -> tuple[str, ...]:
        file = tmp_path / f"{uuid.uuid4().hex}.properties"
        rows = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
        file.write_text("".join(f"{name}={value}\n" for name, value in rows.items()))
        return "--bootstrap-server", properties["bootstrap.servers"], "--command-config", str(file)

    return options


@pytest.fixture
def topic(run: Run) -> str:
    """A topic of two partitions, each on both brokers."""
    name = f"test.t{uuid.uuid4().hex[:10]}"
    run("topics", "create", name, "--partitions", "2", "--replication-factor", "2").good()
    return name


def with_password(cluster: SecuredCluster, user: str, password: str | None = None) -> Properties:
    """The properties of one who comes with a password, by default the right one."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    secret = PASSWORDS[user] if password is None else password
    return {
        "bootstrap.servers": cluster.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{user}" password="{secret}";',
    }


def by_tls_with_password(cluster: SecuredCluster, user: str) -> Properties:
    """The properties of a client with the right password, over TLS."""
    both = {**with_password(cluster, user), **by_tls(cluster, cluster.ca)}
    return {**both, "bootstrap.servers": cluster.address("SASL_SSL"), "security.protocol": "SASL_SSL"}


def by_tls(cluster: SecuredCluster, ca: Path) -> Properties:
    """The properties of one who comes by TLS and trusts what that certificate has signed."""
    return {
        "bootstrap.servers": cluster.address("SSL"),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }
