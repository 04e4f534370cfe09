from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from tests.support.servers import free_port

from distributary.cli.main import main
from distributary.config import load
from distributary.socketio_gateway.__main__ import publishers_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISTRIBUTARY_CONFIG", raising=False)
    return tmp_path


def test_socketio_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("distributary.socketio_gateway.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "socketio", None)
    assert main(["socketio", "--publisher", "127.0.0.1:1"]) == 1
    assert "pip install 'distributary[socketio]'" in capsys.readouterr().err


def test_socketio_without_a_stack_is_one_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "distributary.toml").write_text("")
    assert main(["socketio"]) == 1
    assert "distributary up" in capsys.readouterr().err


def test_socketio_refuses_an_invalid_port_and_an_open_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["socketio", "--port", "70000", "--publisher", "127.0.0.1:1"]) == 2
    assert "socketio.port" in capsys.readouterr().err
    assert main(["socketio", "--host", "0.0.0.0", "--publisher", "127.0.0.1:1"]) == 2
    assert "socketio.host" in capsys.readouterr().err


def test_socketio_names_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["socketio", "--port", port, "--publisher", "127.0.0.1:1"]) == 1
    printed = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in printed
    assert "Traceback" not in printed


def test_publishers_of_the_running_stack_are_found(folder: Path) -> None:
    path = folder / "distributary.toml"
    path.write_text('[publisher]\nhost = "0.0.0.0"\nport = 8123\n')
    assert publishers_of(load(path, env={})) == ["ws://127.0.0.1:8123/connection/websocket"]
    path.write_text('[socketio]\npublishers = ["wss://stream.example.com"]\n')
    assert publishers_of(load(path, env={})) == ["wss://stream.example.com/connection/websocket"]


def gateway_error(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["gateway", *args]) != 0
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    return printed


def test_gateway_refuses_an_open_address_without_auth(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'gateway.host = "0.0.0.0"' in gateway_error(capsys, "--host", "0.0.0.0")


def test_gateway_names_an_invalid_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert "gateway.port" in gateway_error(capsys, "--port", "many")


def test_gateway_names_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert f"127.0.0.1:{port}" in gateway_error(capsys, "--port", port)
