"""The producer keeps its rate and says what failed."""

from __future__ import annotations

import time
from typing import Any, cast

from bench.produce import Source
from confluent_kafka import Producer


class FakeProducer:
    """Takes everything, but is full now and then, and fails what it is told to."""

    def __init__(self, full_at: int = -1, fail_at: int = -1) -> None:
        self.values: list[bytes] = []
        self.times: list[float] = []
        self._full_at = full_at
        self._fail_at = fail_at
        self._lost = 0

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Any) -> None:
        if len(self.values) == self._full_at:
            self._full_at = -1
            raise BufferError
        if len(self.values) == self._fail_at:
            on_delivery("refused", None)
        self.values.append(value)
        self.times.append(time.monotonic())

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0


def source(fake: FakeProducer) -> Source:
    return Source(cast(Producer, fake), "t", lambda n: (b"k", b"%d" % n))


def test_a_phase_sends_the_right_number_and_not_ahead_of_time() -> None:
    fake = FakeProducer()
    done = source(fake).phase({"rate": 400, "seconds": 0.1})
    assert (done["sent"], done["failed"]) == (40, 0)
    began = done["begin_ns"] / 1e9
    assert all(at - began >= n / 400 - 1e-3 for n, at in enumerate(fake.times)), "none goes before its time"
    assert done["late_max_ms"] >= done["late_p99_ms"] >= 0


def test_a_high_rate_goes_in_slices() -> None:
    done = source(FakeProducer()).phase({"rate": 20_000, "seconds": 0.05})
    assert done["sent"] == 1000
    assert done["end_ns"] - done["begin_ns"] >= 0.045e9


def test_numbers_go_on_from_phase_to_phase_and_a_full_queue_loses_none() -> None:
    fake = FakeProducer(full_at=5)
    one = source(fake)
    assert one.phase({"count": 10})["sent"] == 10
    assert one.phase({"count": 3})["sent"] == 3
    assert fake.values == [b"%d" % n for n in range(13)]


def test_failures_are_told_once_each() -> None:
    one = source(FakeProducer(fail_at=2))
    assert one.phase({"count": 5})["failed"] == 1
    assert one.phase({"count": 5})["failed"] == 0
