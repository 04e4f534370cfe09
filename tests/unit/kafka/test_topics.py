"""Waiting for a Kafka that is not there."""

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
from distributary.kafka.topics import wait_for_kafka


def test_we_say_that_we_wait_once_and_then_what_to_check() -> None:
    address = f"127.0.0.1:{free_port()}"
    said: list[str] = []
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match=f"Kafka at {address} did not answer within 0.5 s") as caught:
        wait_for_kafka(Kafka(bootstrap_servers=address), 0.5, said.append)
    assert time.monotonic() - began < 0.5 + 3 * LIMIT
    assert said == [f"waiting for Kafka at {address}"]
    assert "refused" in caught.value.message
    assert "kafka.bootstrap_servers" in caught.value.hint


@pytest.fixture
def rude() -> Iterator[str]:
    """A port that hangs up on everybody: a broker that is starting, or that wants it otherwise."""
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


def test_who_waits_for_a_broker_to_start_is_not_told_that_it_refuses(rude: str) -> None:
    kafka = Kafka(bootstrap_servers=rude)
    with pytest.raises(KafkaUnavailable):
        wait_for_kafka(kafka, 0.2)
    with pytest.raises(KafkaRefused, match=f"{rude} hangs up"):
        wait_for_kafka(kafka, 0.2, patient=False)
