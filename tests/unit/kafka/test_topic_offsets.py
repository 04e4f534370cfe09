from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import KafkaUnavailable, UsageError
from distributary.kafka.topic_offsets import (
    OffsetKind,
    OffsetRange,
    OffsetSpec,
    end_offsets,
    parse_offset,
    parse_time,
    resolve,
)


class OffsetsAdmin:
    """Answers each query for offsets with the next result: an offset, or an error."""

    def __init__(self, *answers: int | KafkaError) -> None:
        self._answers = list(answers)
        self.refreshed: list[str] = []

    def list_topics(self, topic: str, timeout: float) -> None:
        self.refreshed.append(topic)

    def list_offsets(self, queries: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        answer = self._answers.pop(0)
        future: Future[Any] = Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(queries, future)


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


def at() -> float:
    return 1_000_000.0


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("earliest", OffsetSpec("earliest")),
        ("end", OffsetSpec("latest")),
        ("42", OffsetSpec("offset", 42)),
        ("-10", OffsetSpec("back", 10)),
        ("15 m", OffsetSpec("time", 999_100_000)),
        ("PT1H", OffsetSpec("time", 996_400_000)),
        ("P1D", OffsetSpec("time", 913_600_000)),
        ("1970-01-02T00:00:00Z", OffsetSpec("time", 86_400_000)),
        ("1970-01-02T01:00:00.500+01:00", OffsetSpec("time", 86_400_500)),
        ("1970-01-02", OffsetSpec("time", 86_400_000)),
    ],
)
def test_parse_accepts_words_offsets_times_and_durations(text: str, spec: OffsetSpec) -> None:
    assert parse_offset(text, at) == spec


@pytest.mark.parametrize("text", ["", "soon", "1x", "--5", "P", "PT"])
def test_parse_refuses_other_text(text: str) -> None:
    with pytest.raises(UsageError, match="not an offset or a time"):
        parse_time(text, at) if text == "--5" else parse_offset(text, at)


ranges = st.integers(0, 100).flatmap(
    lambda first: st.builds(
        OffsetRange, st.just(first), st.integers(first, 200), st.none() | st.integers(first, 200)
    )
)
kinds = st.sampled_from(get_args(OffsetKind))


@given(kinds, st.integers(-300, 300), ranges, st.integers(0, 300))
def test_resolved_offset_is_always_within_the_range(
    kind: OffsetKind, value: int, range: OffsetRange, current: int
) -> None:
    found = resolve(OffsetSpec(kind, value), range, current)
    assert range.first <= found <= range.end


def test_shift_needs_a_current_offset() -> None:
    range = OffsetRange(10, 50)
    assert resolve(OffsetSpec("shift", -5), range, 30) == 25
    assert resolve(OffsetSpec("current"), range, 30) == 30
    with pytest.raises(UsageError, match="has not committed"):
        resolve(OffsetSpec("shift", 1), range)
