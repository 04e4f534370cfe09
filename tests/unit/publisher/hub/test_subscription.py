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
    members: Any = SubscriptionMap()
    held: list[One] = []
    for add, n in steps:
        one = ones[n]
        held = [other for other in held if other is not one]
        if add:
            members.add(one)
            held.append(one)
        else:
            members.discard(one)
        assert set(map(id, members)) == set(map(id, held))
        assert len(members) == len(held)
        assert sorted(members.ids()) == sorted({other.id for other in held})
        for name in "ab":
            assert set(map(id, members.by_id(name))) == {id(o) for o in held if o.id == name}
        assert all((one in members) == any(one is other for other in held) for one in ones)
