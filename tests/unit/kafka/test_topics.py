from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from distributary.errors import TopicError
from distributary.kafka.topics import wait_for_topic


class LateAdmin:
    """Describes one topic from metadata that lag: per call its number of partitions, None for no topic."""

    def __init__(self, *answers: int | None, leaderless: int = 0) -> None:
        self._answers = list(answers)
        self._leaderless = leaderless
        self.calls = 0

    def describe_topics(self, topics: object, request_timeout: float) -> dict[str, Future[Any]]:
        self.calls += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future: Future[Any] = Future()
        if answer is None:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            return {"t": future}
        without = self.calls <= self._leaderless
        partitions = [SimpleNamespace(leader=None if without else "broker") for _ in range(answer)]
        future.set_result(SimpleNamespace(name="t", topic_id="id", partitions=partitions))
        return {"t": future}


@pytest.mark.parametrize(
    ("admin", "wanted", "calls"),
    [
        (LateAdmin(1), 1, 1),
        (LateAdmin(None, None, 1), 1, 3),
        (LateAdmin(None, 3, 3, 3, leaderless=3), 1, 4),
        (LateAdmin(1, 1, 3), 3, 3),
    ],
)
def test_wait_for_topic_returns_when_all_partitions_have_leaders(admin: Any, wanted: int, calls: int) -> None:
    found = wait_for_topic(admin, "t", wanted)
    assert (found.name, found.partitions >= wanted, admin.calls) == ("t", True, calls)


def test_wait_for_topic_stops_waiting_for_a_leader_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.kafka.topics.LEADER_LIMIT", 0.05)
    admin: Any = LateAdmin(1, leaderless=10**9)
    assert wait_for_topic(admin, "t").partitions == 1


def test_wait_for_topic_raises_when_the_topic_stays_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.kafka.librdkafka.REQUEST_LIMIT", 0.05)
    admin: Any = LateAdmin(None)
    with pytest.raises(TopicError, match="created but is not visible"):
        wait_for_topic(admin, "t")
