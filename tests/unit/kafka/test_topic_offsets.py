from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from distributary.errors import KafkaUnavailable
from distributary.kafka.topic_offsets import end_offsets


class OffsetsAdmin:
    """Answers each query for offsets with the next result: an offset, or an error."""

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
def test_end_offsets_retry_while_a_partition_has_no_leader(code: int) -> None:
    admin: Any = OffsetsAdmin(KafkaError(code), KafkaError(code), 7)
    assert end_offsets(admin, "t", [0]) == {0: 7}
    assert admin.refreshed == ["t", "t"]


def test_end_offsets_refresh_metadata_once_when_the_leader_is_unknown() -> None:
    unknown = KafkaError(KafkaError._NOENT, "Failed to query partition leaders: No leaders found")
    admin: Any = OffsetsAdmin(unknown, 7)
    assert end_offsets(admin, "t", [0]) == {0: 7}
    without: Any = OffsetsAdmin(unknown, unknown)
    with pytest.raises(KafkaUnavailable, match="No leaders found"):
        end_offsets(without, "t", [0])


@pytest.mark.parametrize(("offset", "valid"), [(0, True), (-1, True), (-1001, False)])
def test_end_offsets_raise_when_no_broker_valid(offset: int, valid: bool) -> None:
    admin: Any = OffsetsAdmin(offset)
    if valid:
        assert end_offsets(admin, "t", [0]) == {0: offset}
    else:
        with pytest.raises(KafkaUnavailable, match="t-0"):
            end_offsets(admin, "t", [0])
