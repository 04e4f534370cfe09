"""Waiting for a Kafka that is not there."""

from __future__ import annotations

import time

import pytest
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.config.sections import Kafka
from distributary.errors import KafkaUnavailable
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
