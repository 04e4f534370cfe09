"""Events go to every row of a partition, each exactly once and in order, whatever is lost or restarted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.flaky_store import Flaky

from distributary.model.build import Build
from distributary.model.partition_state import EventProgress
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers import event_fold
from distributary.reducers.event_fold import EventFold, EventRule, FeedEvent, event_rule_of, in_order
from distributary.reducers.record_codec import Packed
from distributary.reducers.record_fold import DeadLetter
from distributary.reducers.reduce_rules import Function
from distributary.reducers.reducer import Reducer, ReducerOptions, StoreWentBack
from distributary.reducers.row_json import Unreadable
from distributary.store.errors import Fenced
from distributary.store.memory_store import MemoryStore

BUILD = Build("v", "b")
VIEW = View("v", "f", reduce="m:act", events="e", reduce_events="m:on_event")


def act(row: dict[str, Any] | None, event: Any) -> dict[str, Any] | None:
    """Order matters: a repeat, a loss or another order of the two feeds gives another number."""
    if event.tombstone:
        return None
    return {"n": (row["n"] if row else 1) * 3 + event["n"]}


def on_event(row: dict[str, Any], event: Any) -> dict[str, Any] | None:
    if event["e"] == row["n"] % 10:
        return None
    return {"n": row["n"] * 5 + event["e"]} if event["e"] else row


def packed(offset: int, key: str, value: Any, time: int = 1000) -> Packed:
    body = None if value is None else json.dumps(value).encode()
    return Packed(
        partition=0, offset=offset, time=time, event_time=time, key=key.encode(), value=body, unparsed=False
    )


def feed_event(offset: int, value: Any, time: int = 1000) -> FeedEvent:
    return FeedEvent(
        offset, time, value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    )


class Setup:
    def __init__(self, start: int = 0, **options: Any) -> None:
        self.store = MemoryStore()
        self.options = options
        self.start = start
        self.dead: list[DeadLetter] = []
        self.view = options.pop("view", VIEW)
        self.event = options.pop("event", on_event)
        self.store.writer.define("v", "b", "{}")
        self.claim = self.store.writer.claim(BUILD, "t", 2).claim
        self.reducer = self.again()

    def again(self, store: Any = None, partition: int = 0) -> Reducer:
        self.events = EventFold("id", self.start, EventRule(self.event))
        self.reducer = Reducer(
            store or self.store.writer,
            BUILD,
            partition,
            self.claim,
            ReducerOptions(
                view=self.view,
                rule=Function(act),
                write_dead_letters=lambda letters: None,
                write_dead_events=self.dead.extend,
                **self.options,
            ),
            self.events,
        )
        self.reducer.open()
        return self.reducer

    def rows(self) -> dict[str, Any]:
        return {key: json.loads(row.json)["n"] for key, row in self.store.writer.scan(BUILD, 0, 10_000)[1]}


Op = tuple[str, int]
"""A row's key and what an action brings (0: a tombstone), or "" and what an event does."""


def simulate(ops: Sequence[Op]) -> dict[str, int]:
    rows: dict[str, Any] = {}

    class Given(dict[str, Any]):
        tombstone = False

    for key, n in ops:
        given_ = Given(e=n, n=n)
        given_.tombstone = n == 0
        for name in [key] if key else list(rows):
            after = act(rows.get(name), given_) if key else on_event(rows[name], given_)
            rows.pop(name, None)
            if after is not None:
                rows[name] = after
    return {key: row["n"] for key, row in rows.items()}


def drive(one: Setup, store: Any, ops: Sequence[Op], sizes: Sequence[int], ways: Sequence[str]) -> None:
    """Give both feeds to a reducer, in their order; after a failure again from where the store says."""
    acts = [i for i, (key, _) in enumerate(ops) if key]
    events = [i for i, (key, _) in enumerate(ops) if not key]
    reducer, at, turn = one.again(store), 0, 0
    while at < len(ops):
        size, way = sizes[turn % len(sizes)], ways[turn % len(ways)]
        turn += 1
        is_act = bool(ops[at][0])
        run = [i for i in range(at, min(at + size, len(ops)))]
        run = [i for n, i in enumerate(run) if all(bool(ops[j][0]) == is_act for j in run[: n + 1])]
        try:
            if is_act:
                reducer.fold(
                    [packed(acts.index(i), ops[i][0], {"n": ops[i][1]} if ops[i][1] else None) for i in run]
                )
            else:
                some = [feed_event(events.index(i), {"e": ops[i][1]}) for i in run]
                while one.events.unfolded(some):
                    reducer.fold_events(some)
            at = run[-1] + 1
        except (ConnectionError, Fenced):
            if way == "server restarts":
                one.store.restart()
                one.claim = one.store.writer.claim(BUILD, "t", 2).claim
            if way == "same":
                reducer.open()
                continue
            reducer = one.again(store)
            progress = one.events.reached
            done = reducer.mark.offset + (1 if reducer.mark.part else 0) if reducer.mark else 0
            at = next(
                (
                    i
                    for i in range(len(ops))
                    if (acts.index(i) >= done if ops[i][0] else events.index(i) >= progress.offset)
                ),
                len(ops),
            )


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.sampled_from(["", "", "a", "b", "c", "d:e f"]), st.integers(0, 9)), max_size=25),
    st.lists(st.sampled_from(["ok", "before", "after"]), max_size=20),
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
    st.lists(st.sampled_from(["same", "new task", "server restarts"]), min_size=1, max_size=8),
    st.integers(1, 4),
    st.booleans(),
)
def test_both_feeds_are_folded_exactly_once_and_in_order(
    ops: list[Op], breaks: list[str], sizes: list[int], ways: list[str], rows: int, quiet: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_fold, "EVENT_CHANGES", rows)
        patch.setattr(event_fold, "EVENT_SLICE", 1)
        one = Setup(quiet=quiet)
        drive(one, Flaky(one.store.writer, list(breaks)), ops, sizes, ways)
        assert one.rows() == simulate(ops)
        assert one.again() is not None
        assert one.rows() == simulate(ops)


def test_event_over_many_rows_continues_after_the_last_written_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_fold, "EVENT_CHANGES", 2)
    monkeypatch.setattr(event_fold, "EVENT_SLICE", 1)
    one = Setup()
    one.reducer.fold([packed(i, key, {"n": 1}) for i, key in enumerate("dbeca")])
    one.reducer.fold_events([feed_event(7, {"e": 1})])
    assert one.events.reached[:3] == ("id", 7, "b")
    with pytest.raises(RuntimeError):
        one.reducer.fold([packed(5, "x", {"n": 1})])
    reducer = one.again()
    assert one.events.under_way
    while one.events.unfolded([feed_event(7, {"e": 1})]):
        reducer.fold_events([feed_event(7, {"e": 1})])
    assert one.rows() == dict.fromkeys("abcde", 21)
    assert one.events.reached[:3] == ("id", 8, None)


def test_event_under_way_is_given_up_when_its_topic_lost_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_fold, "EVENT_CHANGES", 1)
    monkeypatch.setattr(event_fold, "EVENT_SLICE", 1)
    one = Setup()
    one.reducer.fold([packed(0, "a", {"n": 1}), packed(1, "b", {"n": 1})])
    one.reducer.fold_events([feed_event(0, {"e": 1})])
    one.events.give_up()
    one.reducer.fold([packed(2, "a", {"n": 1})])
    assert one.rows() == {"a": 64, "b": 4}
    one.again()
    assert one.events.reached == EventProgress("id", 1)
    late = EventFold("id", 0, EventRule(on_event), earliest=9)
    assert late.open(EventProgress("id", 3, "k"))
    assert late.reached == EventProgress("id", 9)


def test_events_before_the_first_row_are_not_folded_into_it() -> None:
    one = Setup(start=3)
    one.reducer.fold_events([feed_event(3, {"e": 1}), feed_event(4, {"e": 2})])
    one.reducer.open()  # a broken link
    one.reducer.fold([packed(0, "a", {"n": 1})])
    one.again().fold_events([feed_event(4, {"e": 2}), feed_event(5, {"e": 1})])
    assert one.rows() == {"a": 21}


def test_reducer_refuses_to_open_when_store_lost_events() -> None:
    one = Setup()
    one.reducer.fold([packed(0, "a", {"n": 1})])
    before = one.reducer._opened
    one.reducer.fold_events([feed_event(0, {"e": 1})])
    assert before is not None
    assert one.events.open(EventProgress("id", 1))
    assert not one.events.open(EventProgress("id", 0))
    assert not one.events.open(None)
    one.store.writer.rebuild(BUILD, one.claim.generation)
    one.reducer.claim = one.store.writer.claim(BUILD, "t", 2).claim
    one.reducer._mark = None
    with pytest.raises(StoreWentBack):
        one.reducer.open()


def test_event_changes_only_rows_of_the_reducers_partition() -> None:
    one = Setup()
    one.reducer.fold([packed(0, "a", {"n": 1})])
    other = one.again(partition=1)
    other.fold([packed(0, "b", {"n": 1})._replace(partition=1)])
    one.again(partition=1).fold_events([feed_event(0, {"e": 1})])
    assert one.rows() == {"a": 4, "b": 21}
    one.again(partition=0).fold_events([feed_event(0, {"e": 1})])
    assert one.rows() == {"a": 21, "b": 21}


def test_event_function_that_raises_leaves_row_and_gives_one_dead_letter() -> None:
    def strict(row: dict[str, Any], event: Any) -> dict[str, Any]:
        if event.key in event["bad"]:
            raise ValueError("not for me")
        return {"n": row["n"] + 1}

    one = Setup(event=strict)
    one.reducer.fold([packed(i, key, {"n": 1}) for i, key in enumerate("abc")])
    one.reducer.fold_events([feed_event(0, {"bad": "ac"}), feed_event(1, b"{"), feed_event(2, {"bad": ""})])
    assert one.rows() == {"a": 5, "b": 6, "c": 5}
    assert [letter.offset for letter in one.dead] == [0, 1]
    assert one.dead[0].reason == "row 'a': ValueError: not for me (and 1 more rows)"
    assert one.dead[1].reason.startswith("not JSON")
    assert one.reducer.dead == 2


async def test_event_is_reported_as_change_and_does_not_extend_ttl() -> None:
    one = Setup(view=View("v", "f", reduce="m:act", events="e", reduce_events="m:on_event", ttl=60.0))
    query = Query.parse("v", "n > 20")
    await one.store.reader.register(
        "v", query_id=query.id, text=query.text, subscription="s", ttl_ms=60_000, begun=True
    )
    one.reducer.refresh()
    one.reducer.fold([packed(0, "a", {"n": 1}, time=1000)])
    (before,) = one.store.writer.rows(BUILD, ["a"])
    assert one.reducer.fold_events([feed_event(0, {"e": 1}, time=9000)]) == 1
    (after,) = one.store.writer.rows(BUILD, ["a"])
    assert before is not None
    assert after is not None
    assert (before.expires, after.expires) == (61_000, 61_000)
    entries = (await one.store.reader.log(BUILD, 0, 10)).entries
    assert [
        (change.key, change.time, bool(change.adds)) for entry in entries for change in entry.changes
    ] == [
        ("a", 1000, False),
        ("a", 9000, True),
    ]


def test_event_value_is_read_in_the_feeds_format() -> None:
    def describe(row: dict[str, Any], event: Any) -> dict[str, Any]:
        return {"value": event.get("value"), "gone": event.tombstone, "at": event.time}

    def read(format: Any, value: bytes | None) -> Any:
        rule = EventRule(describe, format)
        folded = rule.fold("k", {}, rule.read(FeedEvent(1, 5, value)))
        assert folded is not None
        return json.loads(bytes(folded["value"])), bytes(folded["gone"])

    assert read("text", "h\nü".encode()) == ("h\nü", b"false")
    assert read("bytes", b"\x00\xff") == ("AP8=", b"false")
    assert read("json", b'{"value":1}') == (1, b"false")
    assert read("json", None) == (None, b"true")
    with pytest.raises(Unreadable):
        read("text", b"\xff")


def test_event_rule_names_function_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"reduce_events = 'nowhere_at_all:f': No module"):
        event_rule_of(View("v", "f", reduce_events="nowhere_at_all:f"))
    with pytest.raises(ValueError, match="has no attribute 'nope'"):
        event_rule_of(View("v", "f", reduce_events="json:nope"))
    assert event_rule_of(View("v", "f", reduce_events="json:dumps")) is not None


@given(
    st.lists(st.integers(0, 20), max_size=15),
    st.lists(st.integers(0, 20), max_size=15),
    st.booleans(),
    st.integers(1, 4),
)
def test_records_and_events_that_wait_are_folded_oldest_first(
    times: list[int], events: list[int], hold: bool, visible: int
) -> None:
    """``visible``: at most so many events are visible at a time, as with a reader that is a little ahead."""
    records = [packed(i, "k", {}, time) for i, time in enumerate(sorted(times))]
    queue = [feed_event(i, {}, time) for i, time in enumerate(sorted(events))]
    out: list[tuple[int, int]] = []
    for some, waiting in in_order(records, lambda: queue[:visible], hold_newer=hold):
        assert bool(some) != bool(waiting)
        out += [(one.time, 1) for one in some] + [(one.time, 0) for one in waiting]
        assert list(waiting) == queue[: len(waiting)]
        del queue[: len(waiting)]
    assert out == sorted(out)
    assert [at for at, kind in out if kind] == sorted(times)
    if hold:
        last = max(times, default=-1)
        assert [one.time for one in queue] == [at for at in sorted(events) if at > last]
