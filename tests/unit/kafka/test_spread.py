from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import UsageError
from distributary.kafka.spread import spread

layouts = st.dictionaries(
    st.integers(0, 30), st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=1
)


@given(layouts, st.lists(st.integers(1, 8), min_size=1, max_size=8, unique=True), st.data())
def test_even_and_apart(now: dict[int, list[int]], brokers: list[int], data: st.DataObject) -> None:
    replication: int = data.draw(st.integers(1, len(brokers)))
    then = spread(now, brokers, replication)
    assert then.keys() == now.keys()
    for replicas in then.values():
        assert len(set(replicas)) == len(replicas) == replication
        assert set(replicas) <= set(brokers)
    held = Counter(broker for replicas in then.values() for broker in replicas)
    share = -(-len(now) * replication // len(brokers))
    assert max(held.values()) <= share + 1
    again = spread(then, brokers, replication)
    assert sum(len(set(again[n]) - set(then[n])) for n in now) <= max(0, max(held.values()) - share) * len(
        brokers
    )


def test_only_what_must_moves() -> None:
    now = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    assert spread(now, [1, 2, 3], 2) == now
    assert spread(now, [1, 2, 4], 2) == {0: [1, 2], 1: [2, 4], 2: [4, 1]}
    with pytest.raises(UsageError, match="3 replicas"):
        spread(now, [1, 2], 3)
