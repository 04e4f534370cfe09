"""What the re-keying query repeats is dropped, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.reduce.memo import Reached, Seen, read_memo, read_reached, repeated, write_memo
from distributary.reduce.packed import Source


@given(st.integers(0, 2**60), st.dictionaries(st.integers(0, 50), st.tuples(*[st.integers(0, 2**60)] * 5)))
def test_a_memo_reads_back(watermark: int, seen: dict[int, tuple[int, int, int, int, int]]) -> None:
    sources = {p: Seen(*numbers) for p, numbers in seen.items()}
    assert read_memo(write_memo(watermark, sources)) == (watermark, sources)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=6),
    st.booleans(),
)
def test_any_restarts_of_the_hop_give_each_row_once(
    parts: list[int], restarts: list[tuple[int, int]], zombie: bool
) -> None:
    """``parts[o]`` rows come of the record at offset o; each restart goes back to some earlier offset."""
    rows = [(offset, part) for offset, count in enumerate(parts) for part in range(count)]
    sent: list[Source] = []
    reach = 0
    attempt = 1
    for back, length in restarts:
        start = min(back, reach)
        run = [Source(0, attempt, o) for o, _ in rows if o >= start][:length]
        sent += run
        if run:
            # A batch's end is only ever stored when the batch is whole.
            reach = max(reach, run[-1].offset)
        attempt += 1
    sent += [Source(0, attempt, o) for o, _ in rows if o >= min(reach, len(parts) - 1)]
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


@given(
    st.integers(0, 2**60),
    st.dictionaries(st.integers(0, 50), st.tuples(*[st.integers(0, 2**60)] * 5)),
    st.tuples(st.sampled_from(["AbC_-9x", "t"]), st.integers(0, 2**60), st.none() | st.text()),
)
def test_how_far_the_events_are_reads_back(
    watermark: int,
    seen: dict[int, tuple[int, int, int, int, int]],
    reached: tuple[str, int, str | None],
) -> None:
    sources = {p: Seen(*numbers) for p, numbers in seen.items()}
    memo = write_memo(watermark, sources, Reached(*reached))
    assert read_memo(memo) == (watermark, sources)
    assert read_reached(memo) == Reached(*reached)
    assert read_reached(write_memo(watermark, sources)) is None
