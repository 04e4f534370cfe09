from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.capacity import Load, duration, estimate_capacity, size

WEEK = 7 * 86400.0
LOAD = Load(rate=50_000, size=500, retention=WEEK, consumer_rate=4_000, readers=2)


def test_estimate_equals_one_made_by_hand() -> None:
    found = estimate_capacity(LOAD)
    # 25 MB/s; 37.5 at peaks is 4 partitions of 10 MiB/s, but 75,000 records/s are 19 consumers of 4,000.
    assert found.partitions == 19
    assert found.disk == 50_000 * 500 * WEEK * 3
    # 41.25 TiB on disks that are 0.7 TiB full is 59; the traffic alone would need 3.
    assert found.brokers == 59
    assert [step.result for step in found.steps if step.what == "brokers for the traffic"] == ["3"]
    assert found.steps[0] == ("written", "50,000 records/s x 500 B", "23.84 MiB/s")


loads = st.builds(
    Load,
    rate=st.floats(1, 1e6),
    size=st.floats(1, 1e5),
    retention=st.floats(1, 1e7),
    replication=st.integers(1, 5),
    readers=st.integers(0, 9),
    consumer_rate=st.none() | st.floats(1, 1e5),
)


@given(loads, st.floats(1, 10))
def test_more_load_never_needs_fewer_partitions_or_brokers(load: Load, factor: float) -> None:
    one, more = estimate_capacity(load), estimate_capacity(replace(load, rate=load.rate * factor))
    assert more.partitions >= one.partitions
    assert more.brokers >= one.brokers >= load.replication
    assert one.partitions * load.partition_rate >= load.rate * load.size * load.headroom * (1 - 1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0},
        {"size": -1},
        {"retention": float("inf")},
        {"headroom": 0.5},
        {"disk_fill": 2},
        {"replication": 0},
    ],
)
def test_estimate_refuses_figures_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        estimate_capacity(replace(LOAD, **wrong))  # type: ignore[arg-type]


def test_sizes_and_durations_are_printed_in_the_largest_fitting_unit() -> None:
    assert [size(n) for n in (0, 1023, 1024, 3 << 40, 1 << 60)] == [
        "0 B",
        "1,023 B",
        "1 KiB",
        "3 TiB",
        "1,024 PiB",
    ]
    assert [duration(n) for n in (1, 90, 3600, WEEK)] == ["1 s", "90 s", "1 h", "7 d"]
