"""Slots are never promised twice, and one is always left for micro-batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.model.build import Build
from distributary.reducers.slots import Slots

A, B = Build("a", "1"), Build("b", "1")


def test_a_query_has_all_its_slots_or_none() -> None:
    slots = Slots(lambda: 5)
    assert slots.take(A, 2)
    assert not slots.take(B, 3), "one is kept for micro-batches"
    assert slots.take(B, 2)
    slots.give(A)
    assert not slots.take(A, 3)
    slots.give(B)
    assert slots.take(A, 4)


def test_taking_again_replaces() -> None:
    slots = Slots(lambda: 5)
    assert slots.take(A, 4)
    assert slots.take(A, 3)
    assert not slots.take(A, 5)
    assert slots.take(B, 4), "what was refused holds nothing"


def test_what_comes_and_goes_with_workers_is_counted_anew() -> None:
    there = [3]
    slots = Slots(lambda: there[0])
    assert not slots.take(A, 4)
    there[0] = 5
    assert slots.take(A, 4)
    there[0] = 3
    assert not slots.take(A, 4)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9))), st.integers(1, 20))
def test_there_is_always_one_left(steps: list[tuple[str, int]], total: int) -> None:
    slots, held = Slots(lambda: total), dict[str, int]()
    for name, count in steps:
        build = Build(name, "1")
        held.pop(name, None)
        if not count:
            slots.give(build)
        elif slots.take(build, count):
            held[name] = count
        assert sum(held.values()) < total
