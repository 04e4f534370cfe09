"""Repeats of the re-keying query are dropped, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.partition_state import (
    EventProgress,
    Source,
    SourceProgress,
    folded_offset,
    is_repeat,
    read_event_progress,
    read_state,
    source_fingerprints,
    source_offsets,
    write_state,
)
from distributary.model.position import Fingerprint, Mark

SOURCES = st.dictionaries(st.integers(0, 50), st.builds(SourceProgress, *[st.integers(0, 2**60)] * 7))


@given(st.integers(0, 2**60), SOURCES)
def test_partition_state_reads_back(watermark: int, sources: dict[int, SourceProgress]) -> None:
    assert read_state(write_state(watermark, sources)) == (watermark, sources)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40), st.integers(0, 40)), max_size=6),
    st.booleans(),
)
def test_any_restarts_of_the_rekeying_query_give_each_row_once(
    parts: list[int], restarts: list[tuple[int, int, int]], zombie: bool
) -> None:
    """``parts[o]`` rows come of the record at offset o; each restart goes back to some earlier offset.

    Within an attempt Spark may lose a task after some rows and run it again from the batch's start.
    """
    rows = [(offset, part) for offset, count in enumerate(parts) for part in range(count)]
    sent: list[Source] = []
    reach = 0
    attempt = 1

    def run_from(start: int) -> list[Source]:
        some = [offset for offset, _ in rows if offset >= start]
        return [Source(0, attempt, offset, row, offset) for row, offset in enumerate(some)]

    for back, length, lost in restarts:
        run = run_from(min(back, reach))[:length]
        sent += run[:lost] + run
        if run:
            # A batch's end is only ever stored when the batch is whole.
            reach = max(reach, run[-1].offset)
        attempt += 1
    last = run_from(min(reach, len(parts) - 1))
    sent += last[: len(last) // 2] + last
    if zombie:
        sent += [Source(0, attempt - 1, o) for o, _ in rows]
    sources: dict[int, SourceProgress] = {}
    delivered: list[int] = []
    for one in sent:
        before = sources.get(0)
        if not is_repeat(sources, one):
            delivered.append(one.offset)
        assert before is None or sources[0][1:3] >= before[1:3], "never goes back"
    first = delivered[0]
    assert delivered == [o for o, _ in rows if o >= first]
    assert source_fingerprints([write_state(0, sources)]) == {0: Fingerprint(delivered[-1], delivered[-1])}


@pytest.mark.parametrize("parts", [1, 2])
def test_rows_of_two_runs_of_a_task_may_be_mixed(parts: int) -> None:
    """What a lost executor had under way lands between, or behind, what the second run sends."""
    one = [Source(0, 7, 5, row) for row in range(parts)]
    two = [Source(0, 7, 6, parts + row) for row in range(parts)]
    for sent in ([*one, *one], [*one, *two, *one, *two], [*one, *one, *two, *one, *two, *two]):
        sources: dict[int, SourceProgress] = {}
        delivered = [source for source in sent if not is_repeat(sources, source)]
        assert delivered == [*one, *(two if two[0] in sent else [])]


@given(
    st.integers(0, 2**60),
    SOURCES,
    st.builds(
        EventProgress,
        st.sampled_from(["AbC_-9x", "t"]),
        st.integers(0, 2**60),
        st.none() | st.text(),
        st.none() | st.integers(0, 2**32 - 1),
    ),
)
def test_event_progress_reads_back(
    watermark: int, sources: dict[int, SourceProgress], reached: EventProgress
) -> None:
    state = write_state(watermark, sources, reached)
    assert read_state(state) == (watermark, sources)
    assert read_event_progress(state) == reached
    assert read_event_progress(write_state(watermark, sources)) is None


def test_folded_offset_is_after_a_record_in_parts() -> None:
    assert folded_offset(Mark(5, 1), 0) == 6
    assert folded_offset(None, 7) == 7


def test_source_offsets_are_the_furthest_of_reducers_and_rekeying_query() -> None:
    states = {0: "0 0:1,41,0,41,0,9,77;1:1,3,0,3,0,0,0", 1: "0 0:1,39,0,39,0,0,0"}
    assert source_offsets(states, {0: 10, 1: 10}, {0: 0, 1: 0, 2: 5}) == {0: 42, 1: 10, 2: 5}
