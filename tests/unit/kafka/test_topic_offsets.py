"""Waiting for a Kafka that is not there, and for metadata that are late."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.support.clock import LIMIT
from tests.support.servers import free_port

from distributary.config.sections import Kafka
from distributary.errors import KafkaRefused, KafkaUnavailable, TopicError
from distributary.kafka.topic_offsets import end_offsets, wait_for_kafka, wait_for_topic


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


class LateAdmin:
    """Describes one topic from metadata that are behind: by answer, its partitions or None for no topic."""

    def __init__(self, *answers: int | None, leaderless: int = 0) -> None:
        self._answers = list(answers)
        self._leaderless = leaderless
        self.asked = 0

    def describe_topics(self, topics: object, request_timeout: float) -> dict[str, Future[Any]]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future: Future[Any] = Future()
        if answer is None:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            return {"t": future}
        without = self.asked <= self._leaderless
        partitions = [SimpleNamespace(leader=None if without else "broker") for _ in range(answer)]
        future.set_result(SimpleNamespace(name="t", topic_id="id", partitions=partitions))
        return {"t": future}


@pytest.mark.parametrize(
    ("admin", "wanted", "asked"),
    [
        (LateAdmin(1), 1, 1),
        (LateAdmin(None, None, 1), 1, 3),
        (LateAdmin(None, 3, 3, 3, leaderless=3), 1, 4),
        (LateAdmin(1, 1, 3), 3, 3),
    ],
)
def test_topic_that_was_made_is_waited_for_until_all_is_seen(admin: Any, wanted: int, asked: int) -> None:
    found = wait_for_topic(admin, "t", wanted)
    assert (found.name, found.partitions >= wanted, admin.asked) == ("t", True, asked)


def test_partition_without_a_leader_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.kafka.topic_offsets._LEADER_SECONDS", 0.05)
    admin: Any = LateAdmin(1, leaderless=10**9)
    assert wait_for_topic(admin, "t").partitions == 1


def test_topic_that_is_never_seen_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.kafka.topic_offsets.TIMEOUT", 0.05)
    admin: Any = LateAdmin(None)
    with pytest.raises(TopicError, match="created but cannot be seen"):
        wait_for_topic(admin, "t")


class OffsetsAdmin:
    """Answers what is asked of a partition's offsets: an offset, or an error's code."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self._answers = list(answers)
        self.refreshed: list[str] = []

    def list_topics(self, topic: str, timeout: float) -> None:
        self.refreshed.append(topic)

    def list_offsets(self, asked: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        answer = self._answers.pop(0)
        future: Future[Any] = Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(asked, future)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
    ],
)
def test_offsets_are_asked_again_while_a_partition_has_no_leader_yet(code: int) -> None:
    admin: Any = OffsetsAdmin(KafkaError(code), KafkaError(code), 7)
    assert end_offsets(admin, "t", [0]) == {0: 7}
    assert admin.refreshed == ["t", "t"]


def test_offsets_of_an_unknown_leader_are_asked_again_once_after_a_look_for_it() -> None:
    unknown = KafkaError(KafkaError._NOENT, "Failed to query partition leaders: No leaders found")
    admin: Any = OffsetsAdmin(unknown, 7)
    assert end_offsets(admin, "t", [0]) == {0: 7}
    without: Any = OffsetsAdmin(unknown, unknown)
    with pytest.raises(KafkaUnavailable, match="No leaders found"):
        end_offsets(without, "t", [0])


@pytest.mark.parametrize(("offset", "answered"), [(0, True), (-1, True), (-1001, False)])
def test_offset_that_is_no_answer_raises(offset: int, answered: bool) -> None:
    admin: Any = OffsetsAdmin(offset)
    if answered:
        assert end_offsets(admin, "t", [0]) == {0: offset}
    else:
        with pytest.raises(KafkaUnavailable, match="t-0"):
            end_offsets(admin, "t", [0])
