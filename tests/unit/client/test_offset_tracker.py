"""What is committed is what was given out, and never a partition that has gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.client.offset_tracker import Place, Progress
from distributary.client.record import Record

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("give"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["settle", "commit"]), st.just(0)),
        st.tuples(st.just("forget"), st.integers(0, 2)),
    )
)


@given(STEPS)
def test_against_a_plain_account(steps: list[tuple[str, int]]) -> None:
    progress = Progress()
    after: dict[Place, int] = {}
    under_way: dict[Place, int] = {}
    offset = 0
    for what, partition in steps:
        place = ("t", partition)
        if what == "give":
            progress.give(Record(*place, offset, None, None))
            offset += 1
            after[place] = under_way[place] = offset
        elif what == "settle":
            found = {(one.topic, one.partition): one.offset for one in progress.settle()}
            assert found == under_way
            under_way = {}
        elif what == "commit":
            progress.committed()
            after, under_way = {}, {}
        else:
            progress.forget([place])
            after.pop(place, None)
            under_way.pop(place, None)
        assert {(one.topic, one.partition): one.offset for one in progress.given()} == after
