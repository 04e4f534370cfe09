"""Who is here, by subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distributary.publisher.hub.subscription import SubscriptionMap


@dataclass(eq=False)
class One:
    id: str


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=60))
def test_map_is_a_set_of_subscriptions(steps: list[tuple[bool, int]]) -> None:
    ones = [One("ab"[n % 2]) for n in range(8)]
    subscriptions: Any = SubscriptionMap()
    current: list[One] = []
    for add, n in steps:
        one = ones[n]
        current = [other for other in current if other is not one]
        if add:
            subscriptions.add(one)
            current.append(one)
        else:
            subscriptions.discard(one)
        assert set(map(id, subscriptions)) == set(map(id, current))
        assert len(subscriptions) == len(current)
        assert sorted(subscriptions.ids()) == sorted({other.id for other in current})
        for name in "ab":
            assert set(map(id, subscriptions.by_id(name))) == {id(o) for o in current if o.id == name}
        assert all((one in subscriptions) == any(one is other for other in current) for one in ones)
