"""What the re-keying query repeats is dropped, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.model.fingerprint import Fingerprint
from distributary.reducers.partition_state import (
    Reached,
    Seen,
    read_memo,
    read_reached,
    repeated,
    source_fingerprints,
    write_memo,
)
from distributary.reducers.record_codec import Source

SOURCES = st.dictionaries(st.integers(0, 50), st.builds(Seen, *[st.integers(0, 2**60)] * 7))


@given(st.integers(0, 2**60), SOURCES)
def test_a_memo_reads_back(watermark: int, sources: dict[int, Seen]) -> None:
    assert read_memo(write_memo(watermark, sources)) == (watermark, sources)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40), st.integers(0, 40)), max_size=6),
    st.booleans(),
)
def test_any_restarts_of_the_hop_give_each_row_once(
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
    sources: dict[int, Seen] = {}
    kept: list[int] = []
    for one in sent:
        before = sources.get(0)
        if not repeated(sources, one):
            kept.append(one.offset)
        assert before is None or sources[0][1:3] >= before[1:3], "never goes back"
    first = kept[0]
    assert kept == [o for o, _ in rows if o >= first]
    assert source_fingerprints([write_memo(0, sources)]) == {0: Fingerprint(kept[-1], kept[-1])}


@pytest.mark.parametrize("parts", [1, 2])
def test_rows_of_two_runs_of_a_task_may_be_mixed(parts: int) -> None:
    """What a lost executor had under way lands between, or behind, what the second run sends."""
    one = [Source(0, 7, 5, row) for row in range(parts)]
    two = [Source(0, 7, 6, parts + row) for row in range(parts)]
    for sent in ([*one, *one], [*one, *two, *one, *two], [*one, *one, *two, *one, *two, *two]):
        sources: dict[int, Seen] = {}
        kept = [source for source in sent if not repeated(sources, source)]
        assert kept == [*one, *(two if two[0] in sent else [])]


@given(
    st.integers(0, 2**60),
    SOURCES,
    st.builds(
        Reached,
        st.sampled_from(["AbC_-9x", "t"]),
        st.integers(0, 2**60),
        st.none() | st.text(),
        st.none() | st.integers(0, 2**32 - 1),
    ),
)
def test_how_far_the_events_are_reads_back(
    watermark: int, sources: dict[int, Seen], reached: Reached
) -> None:
    memo = write_memo(watermark, sources, reached)
    assert read_memo(memo) == (watermark, sources)
    assert read_reached(memo) == reached
    assert read_reached(write_memo(watermark, sources)) is None
