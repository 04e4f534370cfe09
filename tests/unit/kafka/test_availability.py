"""What a port tells of itself. Ports that speak TLS: tests/integration/secured/test_connecting.py."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.support.servers import free_port

from distributary.kafka import availability


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def rude() -> Iterator[str]:
    """A port that hangs up on whoever says something, as a broker does that wants it otherwise."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            connection.recv(1)
            connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(5)


@pytest.mark.parametrize("servers", ["127.0.0.1:0", "nowhere", "127.0.0.1:x", "[::1]:1"])
def test_where_nobody_listens_there_is_nothing_to_say(servers: str) -> None:
    assert availability.look(servers, None) == ""
    assert availability.look(f"127.0.0.1:{free_port()},{servers}", "SSL") == ""


def test_a_silent_port_is_not_waited_for(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "LIMIT", 0.05)
    assert availability.look(silent, "PLAINTEXT") == ""


@pytest.mark.parametrize(
    ("security", "said"),
    [
        (None, "hangs up, and security.protocol is PLAINTEXT: it may want a password"),
        ("sasl_ssl", "does not speak TLS, and security.protocol is SASL_SSL"),
        ("SASL_PLAINTEXT", ""),
    ],
)
def test_a_port_that_hangs_up(rude: str, security: str | None, said: str) -> None:
    found = availability.look(f"127.0.0.1:{free_port()},{rude}", security)
    assert found == (f"{rude} {said}" if said else "")
