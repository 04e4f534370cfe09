"""Elections between the look at the marks' records and a write are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.reducers.topic_identity import LeaderChanged, Leaders

EPOCHS = st.dictionaries(st.integers(0, 5), st.integers(-1, 9))


@given(EPOCHS, EPOCHS)
def test_leaders_are_confirmed_unless_a_known_partition_has_another_epoch(
    before: dict[int, int], now: dict[int, int]
) -> None:
    changed = [p for p in before.keys() & now.keys() if before[p] != now[p]]
    try:
        Leaders("t", before).compare(now)
        assert not changed
    except LeaderChanged:
        assert changed


def test_a_changed_leader_is_named_with_its_topic_and_epochs() -> None:
    with pytest.raises(LeaderChanged, match=r"partition 1 of odds has a new leader \(epoch 4, it was 3\)"):
        Leaders("odds", {0: 3, 1: 3}).compare({0: 3, 1: 4})
