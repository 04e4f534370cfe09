"""What is committed is what was delivered, and never of a partition that is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.client.consumer_offsets import OffsetTracker
from distributary.client.record import Record
from distributary.kafka.topics import PartitionId

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["read", "commit"]), st.just(0)),
        st.tuples(st.just("forget"), st.integers(0, 2)),
    )
)


@given(STEPS)
def test_tracked_offsets_equal_a_plain_model(steps: list[tuple[str, int]]) -> None:
    tracker = OffsetTracker()
    delivered: dict[PartitionId, int] = {}
    unread: dict[PartitionId, int] = {}
    offset = 0
    for what, partition in steps:
        target = ("t", partition)
        if what == "deliver":
            tracker.delivered(Record(*target, offset, None, None))
            offset += 1
            delivered[target] = unread[target] = offset
        elif what == "read":
            found = {(one.topic, one.partition): one.offset for one in tracker.mark_read()}
            assert found == unread
            unread = {}
        elif what == "commit":
            tracker.committed()
            delivered, unread = {}, {}
        else:
            tracker.forget([target])
            delivered.pop(target, None)
            unread.pop(target, None)
        assert {(one.topic, one.partition): one.offset for one in tracker.delivered_offsets()} == delivered
