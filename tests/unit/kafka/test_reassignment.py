from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.reassignment import spread

layouts = st.dictionaries(
    st.integers(0, 30), st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=1
)


MANY = {
    **{key: [1] for key in range(14)},
    **{key: [2] for key in range(14, 18)},
    18: [1],
    19: [1, 2, 3],
    20: [1, 2, 3],
}


def test_many_replicas_are_spread_evenly_over_few_brokers() -> None:
    counts = Counter(broker for replicas in spread(MANY, range(1, 8), 6).values() for broker in replicas)
    assert set(counts.values()) == {18}


@given(layouts, st.lists(st.integers(1, 8), min_size=1, max_size=8, unique=True), st.data())
def test_spread_is_even_and_never_repeats_a_broker(
    now: dict[int, list[int]], brokers: list[int], data: st.DataObject
) -> None:
    replication: int = data.draw(st.integers(1, len(brokers)))
    then = spread(now, brokers, replication)
    assert then.keys() == now.keys()
    for replicas in then.values():
        assert len(set(replicas)) == len(replicas) == replication
        assert set(replicas) <= set(brokers)
    counts = Counter(broker for replicas in then.values() for broker in replicas)
    share = -(-len(now) * replication // len(brokers))
    assert max(counts.values()) <= share
    again = spread(then, brokers, replication)
    assert {n: set(again[n]) for n in now} == {n: set(then[n]) for n in now}, "nothing moves a second time"


def test_spread_moves_as_few_replicas_as_possible() -> None:
    now = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    assert spread(now, [1, 2, 3], 2) == now
    assert spread(now, [1, 2, 4], 2) == {0: [1, 2], 1: [2, 4], 2: [4, 1]}
    with pytest.raises(UsageError, match="3 replicas"):
        spread(now, [1, 2], 3)
