from __future__ import annotations

import socket
from pathlib import Path

import pytest

from distributary.cli.main import main


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["gateway", *args]) != 0
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_it_does_not_open_kafka_to_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'gateway.host = "0.0.0.0"' in refused(capsys, "--host", "0.0.0.0")


def test_a_port_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "gateway.port" in refused(capsys, "--port", "many")


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert f"127.0.0.1:{port}" in refused(capsys, "--port", port)
