"""Waiting for a Kafka that does not respond. TLS ports: tests/integration/secured/test_connecting.py."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable
from distributary.kafka.admin import probe_ports, wait_for_kafka


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def rude() -> Iterator[str]:
    """A port that hangs up on everybody: a broker that is starting, or that expects another protocol."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


@pytest.mark.parametrize("servers", ["127.0.0.1:0", "nowhere", "127.0.0.1:x", "[::1]:1"])
def test_probe_finds_nothing_where_no_port_is_open(servers: str) -> None:
    assert probe_ports(servers, None) == ""
    assert probe_ports(f"127.0.0.1:{free_port()},{servers}", "SSL") == ""


def test_probe_gives_up_on_a_silent_port(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.kafka.admin.PORT_LIMIT", 0.05)
    assert probe_ports(silent, "PLAINTEXT") == ""


@pytest.mark.parametrize(
    ("security", "reason"),
    [
        (None, "hangs up, and security.protocol is PLAINTEXT: it may require a password"),
        ("sasl_ssl", "does not speak TLS, and security.protocol is SASL_SSL"),
        ("SASL_PLAINTEXT", ""),
    ],
)
def test_probe_explains_a_port_that_hangs_up(rude: str, security: str | None, reason: str) -> None:
    found = probe_ports(f"127.0.0.1:{free_port()},{rude}", security)
    assert found == (f"{rude} {reason}" if reason else "")


def test_wait_for_kafka_reports_once_that_it_waits_and_then_what_to_check() -> None:
    address = f"127.0.0.1:{free_port()}"
    reported: list[str] = []
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match=f"Kafka at {address} did not respond within 0.5 s") as caught:
        wait_for_kafka(Kafka(bootstrap_servers=address), 0.5, reported.append)
    assert time.monotonic() - began < 0.5 + 3 * LIMIT
    assert reported == [f"waiting for Kafka at {address}"]
    assert "refused" in caught.value.message
    assert "kafka.bootstrap_servers" in caught.value.hint


def test_wait_for_kafka_reports_a_hang_up_only_to_an_impatient_caller(rude: str) -> None:
    kafka = Kafka(bootstrap_servers=rude)
    with pytest.raises(KafkaUnavailable):
        wait_for_kafka(kafka, 0.2)
    with pytest.raises(KafkaRefused, match=f"{rude} hangs up"):
        wait_for_kafka(kafka, 0.2, patient=False)
