"""A reducer folds each record exactly once, whatever is lost, is_repeat or restarted."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.flaky_store import Flaky

from distributary.model.build import Build
from distributary.model.position import Mark
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers import record_fold, row_cache
from distributary.reducers.record_codec import Packed, Pick, Projection
from distributary.reducers.record_fold import DeadLetter
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions, StoreWentBack
from distributary.reducers.write_batch import GROUP_BYTES, GroupTooLarge, portion
from distributary.store.errors import Fenced
from distributary.store.memory_store import MemoryStore

BUILD = Build("v", "b")
SUM = View("v", "f", key="k", reduce="aggregate", aggregates={"total": "sum(n)", "count": "count()"})
MERGE = View("v", "f", key="k")


def packed(
    offset: int, key: str | bytes | None, value: Any, *, time: int = 1000, unparsed: bool = False
) -> Packed:
    body = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return Packed(
        partition=0,
        offset=offset,
        time=time,
        event_time=time,
        key=key.encode() if isinstance(key, str) else key,
        value=body,
        unparsed=unparsed,
    )


class Setup:
    def __init__(self, view: View = MERGE, **options: Any) -> None:
        self.store = MemoryStore()
        self.view = view
        self.options = options
        self.dead: list[DeadLetter] = []
        self.store.writer.define("v", "b", "{}")
        self.claim = self.store.writer.claim(BUILD, "t", 2).claim
        self.reducer = self.again()

    def again(self, store: Any = None, partition: int = 0) -> Reducer:
        reducer = Reducer(
            store or self.store.writer,
            BUILD,
            partition,
            self.claim,
            ReducerOptions(
                view=self.view,
                rule=rule_of(self.view),
                write_dead_letters=self.dead.extend,
                **self.options,
            ),
        )
        reducer.open()
        self.reducer = reducer
        return reducer

    def row(self, key: str) -> Any:
        found = self.store.writer.rows(BUILD, [key])[0]
        return json.loads(found.json, parse_float=Decimal) if found else None


def test_records_at_or_before_the_mark_are_not_folded_again() -> None:
    one = Setup(SUM)
    records = [packed(i, "a", {"total": 1}) for i in range(5)]
    one.reducer.fold(records)
    assert one.reducer.mark == Mark(4, 1)
    one.again().fold(records)
    assert one.row("a") == {"total": 5, "count": 5}
    one.again().fold([*records[3:], packed(5, "a", {"total": 1})])
    assert one.row("a") == {"total": 6, "count": 6}


def test_record_that_gives_several_rows_resumes_after_the_last_written_row() -> None:
    one = Setup(SUM)
    parts = [packed(7, key, {"total": 1}) for key in "abc"]
    one.reducer.fold(parts[:2])
    assert one.reducer.mark == Mark(7, 2)
    one.again().fold([*parts, packed(8, "a", {"total": 1})])
    assert [one.row(k)["count"] for k in "abc"] == [2, 1, 1]


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), max_size=30),
    st.lists(st.sampled_from(["ok", "before", "after"]), max_size=20),
    st.lists(st.integers(1, 7), min_size=1, max_size=10),
    st.lists(st.sampled_from(["same", "new task", "server restarts"]), min_size=1, max_size=10),
    st.booleans(),
)
def test_every_row_is_exact_through_broken_links_new_tasks_and_restarts(
    events: list[tuple[str, int]], breaks: list[str], sizes: list[int], ways: list[str], quiet: bool
) -> None:
    one = Setup(SUM, quiet=quiet)
    flaky = Flaky(one.store.writer, list(breaks))
    records = [packed(i, key, {"total": n}) for i, (key, n) in enumerate(events)]
    reducer, at, turn = one.again(flaky), 0, 0
    while at < len(records):
        size = sizes[turn % len(sizes)]
        way = ways[turn % len(ways)]
        turn += 1
        try:
            reducer.fold(records[at : at + size])
            at += size
        except (ConnectionError, Fenced):
            if way == "server restarts":
                one.store.restart()
                one.claim = one.store.writer.claim(BUILD, "t", 2).claim
            if way == "same":
                reducer.open()
            else:
                # Spark reads again from the stored mark.
                reducer = one.again(flaky)
                at = reducer.mark.offset if reducer.mark else 0
    expected: dict[str, list[int]] = {}
    for key, n in events:
        expected.setdefault(key, []).append(n)
    for key, numbers in expected.items():
        assert one.row(key) == {"total": sum(numbers), "count": len(numbers)}


def test_reducer_refuses_to_open_when_store_went_back() -> None:
    one = Setup(SUM)
    one.reducer.fold([packed(0, "a", {"total": 1})])
    one.store.views["v"].builds["b"].partitions[0].mark = None
    with pytest.raises(Fenced):
        one.reducer.fold([packed(1, "a", {"total": 1})])
    with pytest.raises(StoreWentBack):
        one.reducer.open()


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=1, max_size=30),
    st.lists(st.integers(1, 5), min_size=1, max_size=10),
    st.lists(st.sampled_from(["runs on", "restarts", "loses the last batch"]), min_size=1, max_size=10),
)
def test_every_row_is_exact_when_the_store_goes_back_between_two_batches(
    events: list[tuple[str, int]], sizes: list[int], fates: list[str]
) -> None:
    """Spark begins each batch at its own end of the last one; only a new claim reads from the marks."""
    one = Setup(SUM)
    records = [packed(i, key, {"total": n}) for i, (key, n) in enumerate(events)]
    at = turn = 0
    while at < len(records):
        size = sizes[turn % len(sizes)]
        before = copy.deepcopy(one.store.views)
        try:
            one.again().fold(records[at : at + size])
            at += size
        except Fenced:
            claimed = one.store.writer.claim(BUILD, "t", 2)
            one.claim, mark = claimed.claim, claimed.marks.get(0)
            at = mark.offset if mark is not None else 0
            continue
        # Only so often, and not after the last batch, after which nothing is read.
        fate = fates[turn] if turn < len(fates) and at < len(records) else "runs on"
        turn += 1
        if fate == "loses the last batch":
            one.store.views = before
        if fate != "runs on":
            one.store.restart()
            assert not one.store.writer.advance(BUILD, one.claim, {0: at}), "what the driver would believe"
    for key in {key for key, _ in events}:
        numbers = [n for k, n in events if k == key]
        assert one.row(key) == {"total": sum(numbers), "count": len(numbers)}


def test_task_of_before_a_rebuild_is_fenced() -> None:
    one = Setup(SUM)
    one.store.writer.rebuild(BUILD, one.claim.generation)
    with pytest.raises(Fenced):
        one.reducer.fold([packed(1, "a", {"total": 1})])
    with pytest.raises(Fenced):
        one.reducer.open()


def test_cache_is_cleared_by_open() -> None:
    one = Setup()
    first = one.reducer
    first.fold([packed(0, "a", {"n": 1})])
    # Another task takes the partition and changes the row behind the first one's cache.
    one.again().fold([packed(1, "a", {"m": 2})])
    first.open()
    first.fold([packed(2, "a", {"o": 3})])
    assert one.row("a") == {"n": 1, "m": 2, "o": 3}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (packed(1, "a", b"{broken"), "not JSON"),
        (packed(1, "a", b"[1]"), "not a JSON object"),
        (packed(1, "a", b"x", unparsed=True), "not JSON"),
        (packed(1, None, {"n": 1}), "no row key: k is null or missing"),
        (packed(1, None, None), "its key is used as the row key only if the feed has partitioned_by = 'k'"),
        (packed(1, "a", b'{"a":"\xff"}'), "not UTF-8"),
        (packed(1, b"\xff\x00\x01", {"n": 1}), "the row key is not UTF-8 (byte 1)"),
        (packed(1, b"k\xc3", None), "the row key is not UTF-8 (byte 2)"),
    ],
)
def test_record_that_cannot_be_folded_is_a_dead_letter_and_later_records_are_folded(
    bad: Packed, why: str
) -> None:
    one = Setup()
    one.reducer.fold([packed(0, "a", {"n": 1}), bad, packed(2, "a", {"m": 2})])
    assert one.row("a") == {"n": 1, "m": 2}
    assert [(d.offset, why in d.reason) for d in one.dead] == [(1, True)]
    info = one.store.writer.build(BUILD)
    assert info is not None
    assert (info.dead, info.records, info.marks[0]) == (1, 3, Mark(2, 1))


def raising(row: Any, event: Any) -> Any:
    return {"ok": 1 / event["n"]}


def test_record_for_which_the_function_raises_is_a_dead_letter() -> None:
    one = Setup(View("v", "f", reduce=f"{__name__}:raising"))
    one.reducer.fold([packed(0, "a", {"n": 0}), packed(1, "a", {"n": 1})])
    assert [d.reason for d in one.dead] == ["ZeroDivisionError: division by zero"]
    assert one.row("a") == {"ok": 1}


def test_dead_letters_are_written_before_the_mark_that_skips_them() -> None:
    one = Setup()
    marks: list[Any] = []

    def write(letters: Sequence[DeadLetter]) -> None:
        info = one.store.writer.build(BUILD)
        assert info is not None
        marks.append(dict(info.marks))

    one.reducer._options = replace(one.reducer._options, write_dead_letters=write)
    one.reducer.fold([packed(0, "a", b"{")])
    assert marks == [{}]
    assert one.reducer.mark == Mark(0, 1)


async def changes_of(one: Setup) -> list[tuple[int, Any]]:
    read = await one.store.reader.log(BUILD, 0, 1000)
    return [pair for entry in read.entries for pair in entry.numbered()]


async def test_query_that_is_registered_during_a_write_is_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Setup()
    query = Query.parse("v", "n = 1")
    registered = await one.store.reader.register(
        "v", query_id=query.id, text=query.text, subscription="s", ttl_ms=60_000, begun=True
    )
    one.reducer.fold([packed(0, "a", {"n": 1}), packed(1, "b", {"n": 2})])
    changes = await changes_of(one)
    assert [c.adds for _, c in changes] == [[registered.number], []]
    state = await one.store.reader.query_state("v", query.id)
    assert state is not None
    assert state.last == 1


async def test_add_change_and_remove_are_decided_from_old_and_new() -> None:
    one = Setup()
    query = Query.parse("v", "n = 1")
    number = (
        await one.store.reader.register(
            "v", query_id=query.id, text=query.text, subscription="s", ttl_ms=60_000, begun=True
        )
    ).number
    for offset, value in enumerate([{"n": 0}, {"n": 1}, {"m": 1}, {"n": 2}, None]):
        one.reducer.fold([packed(offset, "a", value)])
    got = [(c.adds, c.changes, c.removes) for _, c in await changes_of(one)]
    assert got == [([], [], []), ([number], [], []), ([], [number], []), ([], [], [number]), ([], [], [])]
    rows = [c.row for _, c in await changes_of(one)]
    assert rows[1] == b'{"n":1}'
    await one.store.reader.end("v", "s")
    one.reducer.fold([packed(9, "a", {"n": 1})])
    assert one.reducer.index.sizes()["queries"] == 0


async def test_record_that_changes_nothing_writes_no_change() -> None:
    one = Setup()
    one.reducer.fold([packed(0, "a", {"n": 1}), packed(1, "a", {"n": 1})])
    assert len(await changes_of(one)) == 1
    assert one.reducer.mark == Mark(1, 1)


async def test_rows_expire_by_a_timed_write() -> None:
    one = Setup(View("v", "f", ttl=10.0))
    query = Query("v")
    number = (
        await one.store.reader.register(
            "v", query_id=query.id, text=query.text, subscription="s", ttl_ms=60_000, begun=True
        )
    ).number
    now = one.store.now()
    one.reducer.fold([packed(0, "old", {"n": 1}, time=now - 60_000), packed(1, "new", {"n": 1}, time=now)])
    assert one.reducer.expire() == 1
    assert (one.row("old"), one.row("new")) == (None, {"n": 1})
    assert (await changes_of(one))[-1][1].removes == [number]
    assert one.reducer.mark == Mark(1, 1)
    assert one.reducer.expire() == 0


def test_rows_expire_as_fast_as_they_are_written() -> None:
    """Two thousand new rows a second with a life of five seconds."""
    clock = [1_000.0]
    one = Setup(View("v", "f", ttl=5.0))
    one.store.clock = lambda: clock[0]
    for second in range(20):
        now, first = int(clock[0] * 1000), second * 2_000
        one.reducer.fold([packed(first + n, f"k{first + n}", {"n": 1}, time=now) for n in range(2_000)])
        while one.reducer.expire() and one.reducer.wait() == 0.0:
            pass
        clock[0] += 1
    assert len(one.store.find(BUILD).rows) <= 12_000
    assert one.reducer.wait() is None


def test_expired_rows_do_not_stay_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "CACHE_ROWS", 10)
    one = Setup(View("v", "f", ttl=5.0))
    one.reducer.fold([packed(n, f"k{n}", {"n": 1}, time=1) for n in range(100)])
    one.again().expire()
    assert one.store.find(BUILD).rows == {}
    assert len(one.reducer._cache.rows) <= 10


def patch(row: Any, event: Any) -> Any:
    """A small record, and a row of a hundred thousand bytes."""
    return {**(row or {}), "n": event["n"], "text": "x" * 100_000}


def test_group_is_limited_by_the_bytes_that_it_writes() -> None:
    one = Setup(View("v", "f", reduce=f"{__name__}:patch"))
    sizes: list[int] = []
    written = one.store.writer.write

    def write(group: Any) -> int:
        sizes.append(sum(len(row or b"") for _, row, _, _ in group.rows.values()) + len(group.blob))
        return written(group)

    one.store.writer.write = write  # type: ignore[method-assign]
    records = [packed(n, f"k{n}", {"n": n}) for n in range(200)]
    with pytest.raises(GroupTooLarge):
        one.reducer.fold(records)
    assert (sizes, one.reducer.mark) == ([], None), "nothing was written"
    for at in range(0, 200, 20):
        one.reducer.fold(records[at : at + 20])
    assert max(sizes) < 3 * GROUP_BYTES
    assert len(one.store.find(BUILD).rows) == 200


def test_single_record_may_exceed_the_group_limit() -> None:
    one = Setup()
    one.reducer.fold([packed(0, "a", {"text": "x" * (GROUP_BYTES + 1)})])
    assert one.reducer.mark == Mark(0, 1)


def test_portions_end_at_a_number_of_records_or_bytes() -> None:
    records = [packed(n, "a", {"n": n}) for n in range(10)]
    assert portion(records, 2, 3) == records[2:5]
    large = [packed(n, "a", b"x" * (GROUP_BYTES // 2)) for n in range(5)]
    assert portion(large, 1, 100) == large[1:3]
    assert portion([packed(0, "a", b"x" * GROUP_BYTES * 2)], 0, 1)[0].offset == 0


async def test_renewed_ttl_keeps_the_sequence_number_of_the_row() -> None:
    one = Setup(View("v", "f", ttl=10.0))
    one.reducer.fold([packed(0, "a", {"n": 1}, time=1000)])
    one.reducer.fold([packed(1, "a", {"n": 1}, time=9000)])
    row = one.store.writer.rows(BUILD, ["a"])[0]
    assert row is not None
    assert (row.seq, row.expires) == (1, 19_000)


def test_late_records_and_far_futures_are_refused_in_windows() -> None:
    view = View("v", "f", reduce="aggregate", aggregates={"n": "count()"}, window=60.0, late=30.0)
    one = Setup(view)
    minute = 60_000

    def at(offset: int, event: int) -> Packed:
        return Packed(
            partition=0,
            offset=offset,
            time=100 * minute,
            event_time=event,
            key=b"a",
            value=b"{}",
            unparsed=False,
        )

    one.reducer.fold([at(0, 100 * minute), at(1, 99 * minute + 1), at(2, 98 * minute), at(3, 10**15)])
    assert [(d.offset, d.reason.split(":")[0][:4]) for d in one.dead] == [(2, "late"), (3, "the ")]
    assert one.row(f"a@{99 * minute}") == {"n": 1, "window_start": 99 * minute, "window_end": 100 * minute}
    # The watermark is stored with the mark: a new task refuses the same.
    one.again().fold([at(4, 97 * minute)])
    assert len(one.dead) == 3


def test_projection_keeps_the_digits_of_picked_fields() -> None:
    projection = Projection((Pick("p", ("price",)), Pick("home", ("score", "home"))), computed=True)
    one = Setup(projection=projection)
    value = b'{"double":3}\n{"price":1.50,"score":{"home":2.0},"other":1}'
    one.reducer.fold([packed(0, "a", value)])
    found = one.store.writer.rows(BUILD, ["a"])[0]
    assert found is not None
    assert found.json == b'{"double":3,"p":1.50,"home":2.0}'


def test_row_of_another_partition_is_refused() -> None:
    from distributary.store.errors import NotOwner

    one = Setup()
    one.reducer.fold([packed(0, "a", {"n": 1})])
    other = one.again(partition=1)
    with pytest.raises(NotOwner):
        other.fold(
            [Packed(partition=1, offset=0, time=1, event_time=1, key=b"a", value=b'{"n":2}', unparsed=False)]
        )
    assert one.row("a") == {"n": 1}


INDEXED = View("v", "f", key="k", index=("sport", "n"), ttl=1000.0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.none()
            | st.fixed_dictionaries(
                {}, optional={"sport": st.sampled_from(["x", 1, None, []]), "n": st.integers(0, 2)}
            ),
        ),
        max_size=20,
    ),
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.booleans(),
)
async def test_row_index_has_every_row_under_its_values_and_nothing_else(
    events: list[tuple[str, Any]], sizes: list[int], quiet: bool
) -> None:
    one = Setup(INDEXED, quiet=quiet)
    records = [packed(i, key, value) for i, (key, value) in enumerate(events)]
    at = turn = 0
    while at < len(records):
        size = sizes[turn % len(sizes)]
        one.reducer.fold(records[at : at + size])
        at, turn = at + size, turn + 1
        if turn % 2:
            one.again()
    for field in INDEXED.index:
        for value in ("sx", "n1", "n0", "n2", "null"):
            found = await one.store.reader.find_by_index(BUILD, field, value, 100)
            assert found is not None
            wanted = [key for key in "abc" if _canonical_field(one.row(key), field) == value]
            assert [key for key, _ in found.rows] == wanted
    one.store.clock = lambda: 10.0**10
    while one.reducer.expire():
        pass
    left = [await one.store.reader.find_by_index(BUILD, "sport", value, 9) for value in ("sx", "n1", "null")]
    assert all(found is not None and found.rows == [] for found in left)
    assert one.store.find(BUILD).index == set(), "entries of rows that are gone stayed"


def _canonical_field(row: Any, field: str) -> str | None:
    if row is None:
        return None
    value = row.get(field)
    if value is None:
        return "null"
    return f"s{value}" if isinstance(value, str) else None if isinstance(value, list) else f"n{value}"


def test_group_that_was_too_large_leaves_the_watermark_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its first records would be late when fewer are folded at once."""
    view = View("v", "f", reduce="aggregate", aggregates={"n": "count()"}, window=60.0)
    one = Setup(view)
    minute = 60_000
    records = [
        Packed(
            partition=0,
            offset=at,
            time=100 * minute,
            event_time=(10 + at) * minute,
            key=b"a",
            value=b'{"text":"%s"}' % (b"x" * 100),
            unparsed=False,
        )
        for at in range(3)
    ]
    monkeypatch.setattr(record_fold, "GROUP_BYTES", 150)
    with pytest.raises(GroupTooLarge):
        one.reducer.fold(records)
    for at in range(3):
        one.reducer.fold(records[at : at + 1])
    assert one.dead == []
    assert one.row(f"a@{10 * minute}")["n"] == 1
