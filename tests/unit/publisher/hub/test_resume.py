"""R17 against brute force: a resume is granted exactly when the log proves that nothing is missing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.model.position import Position
from distributary.publisher.hub.resume import ReplayLog, SnapshotRequired, decide
from distributary.store.store_types import QueryState


@settings(max_examples=1000, deadline=None)
@given(
    concerned=st.lists(st.booleans(), max_size=12),
    since=st.integers(0, 12),
    floor=st.integers(0, 12),
    client=st.integers(0, 14),
    same=st.booleans(),
)
def test_against_brute_force(concerned: list[bool], since: int, floor: int, client: int, same: bool) -> None:
    seq = len(concerned)
    since, floor = min(since, seq), min(floor, seq)
    # Before its registration a query is matched against nothing: the store does not know what concerned it.
    matched = [n for n in range(1, seq + 1) if n > since and concerned[n - 1]]
    state = QueryState(number=1, since=since, last=max(matched, default=0), epoch="e", seq=seq, floor=floor)
    decision = decide(Position("e" if same else "f", client), state)

    truly_missed = [n for n in range(client + 1, seq + 1) if concerned[n - 1]]
    in_log = [n for n in matched if n > floor]
    knowable = (
        same and client <= seq and client >= since and set(n for n in matched if n > client) <= set(in_log)
    )
    if isinstance(decision, ReplayLog):
        given_ = [n for n in in_log if n > decision.after]
        assert knowable
        assert given_ == truly_missed, "a partial resume"
    else:
        # It may refuse a lucky case (the log was cut, and only by chance nothing of the query went with it).
        assert not knowable or client < floor


def test_quiet_subscribers_do_not_cost_a_snapshot() -> None:
    assert decide(
        Position("e", 5), QueryState(number=1, since=0, last=5, epoch="e", seq=1_000, floor=900)
    ) == ReplayLog(1_000)


def test_reasons_are_told() -> None:
    state = QueryState(number=1, since=3, last=9, epoch="e", seq=10, floor=8)
    assert [
        isinstance(decide(p, state), SnapshotRequired)
        for p in (Position("f", 10), Position("e", 11), Position("e", 2), Position("e", 7), Position("e", 8))
    ] == [True, True, True, True, False]
