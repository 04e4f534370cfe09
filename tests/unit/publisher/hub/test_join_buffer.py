"""JoinBuffer (R18): for every interleaving, exactly the changes after the state, in order, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.publisher.codec.publication import Publication
from distributary.publisher.hub.join_buffer import BufferOverflow, JoinBuffer


class Plan(NamedTuple):
    """A log (which changes are the channel's), and the times of the steps.

    A step is how many changes the hub takes in one batch, and then the position that a read of the state
    comes back with (-1: none does).
    """

    log: list[bool]
    hub_at_hold: int
    steps: list[tuple[int, int]]


def run(plan: Plan, joining_type: type[JoinBuffer]) -> tuple[int, list[int]] | None:
    """Play a plan; return the state's position and the numbers delivered after it, or None: never settled."""
    log = [(n, b"") for n in range(1, len(plan.log) + 1) if plan.log[n - 1]]
    hub = min(plan.hub_at_hold, len(plan.log))
    joining = joining_type("e", hub)
    delivered: list[int] = []
    live = False
    position: int | None = None

    def advance(to: int) -> None:
        nonlocal hub, live
        batch: list[Publication] = [pub for pub in log if hub < pub[0] <= to]
        hub = max(hub, to)
        if not batch:
            return
        if live:
            delivered.extend(n for n, _ in batch)
        else:
            delivered.extend(n for n, _ in joining.take(batch))
            live = joining.passed(hub)

    for count, read in plan.steps:
        advance(min(len(plan.log), hub + count))
        if position is None and read >= 0:
            at = min(read, len(plan.log))
            current = joining.flush("e", at)
            if current is not None:
                position = at
                delivered.extend(n for n, _ in current)
                live = joining.passed(hub)
    advance(len(plan.log))
    return None if position is None else (position, delivered)


def expected(plan: Plan, position: int) -> list[int]:
    return [n for n in range(position + 1, len(plan.log) + 1) if plan.log[n - 1]]


PLANS = st.builds(
    Plan,
    st.lists(st.booleans(), max_size=20),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 20)), max_size=8),
)


@settings(max_examples=1000, deadline=None)
@given(PLANS)
def test_any_interleaving_delivers_each_change_once(plan: Plan) -> None:
    found = run(plan, JoinBuffer)
    if found is None:
        hub = min(plan.hub_at_hold, len(plan.log))
        assert all(min(read, len(plan.log)) < hub for _, read in plan.steps), "a good state was refused"
        return
    position, delivered = found
    assert position >= min(plan.hub_at_hold, len(plan.log))
    assert delivered == expected(plan, position)


class WithoutBuffer(JoinBuffer):
    """Loses what comes between the start of the buffer and the state."""

    def take(self, pubs: Sequence[Publication]) -> Sequence[Publication]:
        return super().take(pubs) if self.position is not None else ()


class WithoutDrop(JoinBuffer):
    """Repeats what the state already has."""

    def passed(self, seq: int) -> bool:
        return self.position is not None

    def flush(self, epoch: str, seq: int) -> Sequence[Publication] | None:
        current = super().flush(epoch, seq)
        return current


class AnyState(JoinBuffer):
    """Accepts a state that is older than the buffer."""

    def flush(self, epoch: str, seq: int) -> Sequence[Publication] | None:
        self._start = 0
        return super().flush(epoch, seq)


@pytest.mark.parametrize("mutant", [WithoutBuffer, WithoutDrop, AnyState])
def test_interleavings_catch_a_broken_join(mutant: type[JoinBuffer]) -> None:
    """The property above is worth something: each rule left out is seen."""

    @settings(max_examples=2000, deadline=None, database=None)
    @given(PLANS)
    @example(Plan([True] * 4, 1, [(1, -1), (0, 1)]))
    @example(Plan([True] * 4, 0, [(0, 3)]))
    @example(Plan([True] * 4, 2, [(0, 0)]))
    def holds(plan: Plan) -> None:
        found = run(plan, mutant)
        if found is not None:
            assert found[1] == expected(plan, found[0])

    with pytest.raises(AssertionError):
        holds()


def test_state_of_another_epoch_is_read_again() -> None:
    joining = JoinBuffer("e", 3)
    assert joining.flush("f", 9) is None
    assert joining.flush("e", 2) is None
    assert joining.flush("e", 3) == []


def test_buffer_is_bounded() -> None:
    joining = JoinBuffer("e", 0, max_bytes=10)
    joining.take([(1, b"12345")])
    with pytest.raises(BufferOverflow):
        joining.take([(2, b"123456")])
