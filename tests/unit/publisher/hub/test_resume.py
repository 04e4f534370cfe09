"""When a resume is possible, and what a subscriber is sent that starts from a position or a time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_hub import FILTERED, WHOLE_VIEW, hub_of, request
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.folding_sink import FoldingSink

from distributary.model.build import Definition
from distributary.model.feed import Feed
from distributary.model.position import Mark, Position
from distributary.model.query import Query
from distributary.model.view import View
from distributary.publisher.hub import resume
from distributary.publisher.hub.resume import ReplayLog, SnapshotRequired, decide, read_missed
from distributary.publisher.hub.subscription import Initial, Recovered
from distributary.store.build_scan import belongs
from distributary.store.store_types import QueryState


@settings(max_examples=1000, deadline=None)
@given(
    concerned=st.lists(st.booleans(), max_size=12),
    since=st.integers(0, 12),
    floor=st.integers(0, 12),
    client=st.integers(0, 14),
    same=st.booleans(),
)
def test_decision_equals_brute_force(
    concerned: list[bool], since: int, floor: int, client: int, same: bool
) -> None:
    seq = len(concerned)
    since, floor = min(since, seq), min(floor, seq)
    # Before its registration a query is matched against nothing: its changes are unknown.
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
        # It may refuse a case where the log was cut and by chance nothing of the query was lost.
        assert not knowable or client < floor


def test_quiet_subscriber_needs_no_snapshot() -> None:
    assert decide(
        Position("e", 5), QueryState(number=1, since=0, last=5, epoch="e", seq=1_000, floor=900)
    ) == ReplayLog(1_000)


def test_decision_has_a_reason() -> None:
    state = QueryState(number=1, since=3, last=9, epoch="e", seq=10, floor=8)
    assert [
        isinstance(decide(p, state), SnapshotRequired)
        for p in (Position("f", 10), Position("e", 11), Position("e", 2), Position("e", 7), Position("e", 8))
    ] == [True, True, True, True, False]


WHOLE = Query(VIEW)
FOOTBALL = Query.parse(VIEW, "s = 'f'")
REPLAYED = View(VIEW, "odds", reduce="latest", replay=True)


class Written(FakeView):
    """A fake view with its past: the rows after each change, and the records that caused them."""

    def __init__(self, view: View = REPLAYED, **more: Any) -> None:
        super().__init__(**more)
        self.writer.define(VIEW, "b1", Definition(view, Feed("odds", "odds")).text)
        self.records: list[str] = []
        self.past: dict[int, dict[str, Any]] = {0: {}}
        self.lost = 0

    def put(self, *rows: tuple[str, dict[str, object] | None]) -> int:
        for row in rows:
            super().put(row)
            self.records.append(row[0])
            self.past[self.seq] = self.rows()
        return self.seq

    def some(self, chance: random.Random, most: int = 3) -> None:
        for _ in range(chance.randrange(most)):
            key = f"k{chance.randrange(12)}"
            gone = key in self.rows() and chance.random() < 0.3
            self.put((key, None if gone else {"s": chance.choice("fg"), "n": chance.randrange(99)}))

    async def touched(
        self, topic: str, id: str, start: Mapping[int, Mark], end: Mapping[int, Mark], most: int
    ) -> set[str] | None:
        """Read the records between two marks, as Kafka would give them."""
        assert (topic, id) == ("odds", "topic")
        if start[0].offset < self.lost:
            return None
        return set(self.records[start[0].offset : end[0].offset])


class Meddling:
    """A reader behind whose back something is written before and after each call."""

    def __init__(self, fake_view: FakeView, meddle: Callable[[], None]) -> None:
        self._fake_view = fake_view
        self._meddle = meddle

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._fake_view.reader, name)

        async def call(*args: Any, **more: Any) -> Any:
            self._meddle()
            try:
                return await inner(*args, **more)
            finally:
                self._meddle()

        return call


def of(query: Query, rows: dict[str, Any]) -> dict[str, Any]:
    return {key: row for key, row in rows.items() if belongs(query, key, json.dumps(row).encode())}


def folded(rows: dict[str, Any], outcome: Recovered) -> dict[str, Any]:
    """Apply what was missed as a subscriber does; numbers never decrease, and end with the outcome's."""
    out, last = dict(rows), 0
    for number, data in outcome.publications:
        assert last <= number <= outcome.seq
        last = number
        message = json.loads(data)
        if message["op"] == "remove":
            out.pop(message["key"], None)
        elif message["op"] == "add":
            out[message["key"]] = message["row"]
        else:
            out[message["key"]] = message["changed"]  # the fake view reports all fields
    return out


async def registered(fake_view: FakeView, query: Query, id: str = "s") -> None:
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription=id, ttl_ms=60_000, begun=True
    )


@pytest.mark.parametrize("query", [WHOLE, FOOTBALL], ids=["whole", "filter"])
@pytest.mark.parametrize("seed", range(10))
async def test_client_gets_changed_rows_from_before_the_query_was_registered(
    seed: int, query: Query, monkeypatch: Any
) -> None:
    monkeypatch.setattr(resume, "ROWS_PER_READ", 3)
    chance, fake_view = random.Random(seed), Written()
    for _ in range(10):
        fake_view.some(chance)
    position = Position(fake_view.epoch, fake_view.seq)
    rows = of(query, fake_view.rows())
    for _ in range(5):
        fake_view.some(chance)
    fake_view.put(("k0", {"s": "f", "n": -1}))
    await registered(fake_view, query)
    store: Any = Meddling(fake_view, lambda: fake_view.some(chance))
    assert await read_missed(store, fake_view.build, query, position) is None, (
        "a lost one is told each change"
    )
    found = await read_missed(store, fake_view.build, query, position, as_rows=True)
    assert found is not None
    assert found.tier == "log"
    assert folded(rows, found) == of(query, fake_view.past[found.seq])


@pytest.mark.parametrize("seed", range(10))
async def test_client_gets_a_replay_when_the_log_does_not_reach_back(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(resume, "ROWS_PER_READ", 4)
    chance, fake_view = random.Random(seed), Written(log_length=40)
    now = fake_view.store.now()
    fake_view.store.clock = lambda: now / 1000
    await registered(fake_view, WHOLE)
    stood: list[tuple[Position, dict[str, Any]]] = []
    for _ in range(60):
        fake_view.some(chance, 5)
        if chance.random() < 0.3:
            now += 10
            fake_view.writer.save_checkpoint(fake_view.build, 1, 1000)
        stood.append((Position(fake_view.epoch, fake_view.seq), fake_view.rows()))
    first = min(place.seq for place in fake_view.store.views[VIEW].builds["b1"].checkpoints if place.marks)
    store: Any = Meddling(fake_view, lambda: fake_view.some(chance))
    tiers = set()
    for position, rows in [*stood[:10], *stood[::6]][::-1]:
        found = await read_missed(store, fake_view.build, WHOLE, position, changed_keys=fake_view.touched)
        if found is None:
            assert position.seq < first, "older than any note"
            continue
        tiers.add(found.tier)
        assert folded(rows, found) == fake_view.past[found.seq]
    assert tiers == {"log", "replay"}


@pytest.mark.parametrize(
    ("view", "query"),
    [
        (replace(REPLAYED, replay=False), WHOLE),
        (replace(REPLAYED, key="id"), WHOLE),
        (replace(REPLAYED, ttl=5.0), WHOLE),
        (replace(REPLAYED, reduce="aggregate"), WHOLE),
        (REPLAYED, FOOTBALL),
        (REPLAYED, Query.of_keys(VIEW, ["a"])),
    ],
    ids=["not asked for", "another key", "rows end", "another rule", "a filter", "keys"],
)
async def test_view_whose_records_do_not_name_all_rows_is_not_replayed(view: View, query: Query) -> None:
    fake_view, position = await away(view, query)
    assert (
        await read_missed(fake_view.reader, fake_view.build, query, position, changed_keys=fake_view.touched)
        is None
    )


async def away(view: View = REPLAYED, query: Query = WHOLE) -> tuple[Written, Position]:
    """A subscriber that was away for longer than the log reaches back."""
    fake_view = Written(view, log_length=3)
    await registered(fake_view, query)
    fake_view.put(("a", {"s": "f"}))
    fake_view.writer.save_checkpoint(fake_view.build, 1, 10)
    position = Position(fake_view.epoch, fake_view.seq)
    for n in range(20):
        fake_view.put((f"b{n}", {"s": "f"}), ("a", {"s": "f", "n": n}))
    return fake_view, position


async def test_records_deleted_from_kafka_are_not_replayed() -> None:
    fake_view, position = await away()
    found = await read_missed(
        fake_view.reader, fake_view.build, WHOLE, position, changed_keys=fake_view.touched
    )
    assert found is not None
    assert (found.tier, found.seq) == ("replay", fake_view.seq)
    fake_view.lost = 5
    assert (
        await read_missed(fake_view.reader, fake_view.build, WHOLE, position, changed_keys=fake_view.touched)
        is None
    )


async def test_partition_without_a_mark_is_not_replayed() -> None:
    fake_view, position = await away()
    build = fake_view.store.views[VIEW].builds["b1"]
    build.checkpoints = [one._replace(marks={}) for one in build.checkpoints]
    assert (
        await read_missed(fake_view.reader, fake_view.build, WHOLE, position, changed_keys=fake_view.touched)
        is None
    )


async def test_rekeyed_view_is_not_replayed() -> None:
    fake_view, position = await away()
    fake_view.writer.update_build(fake_view.build, rekey="1")
    assert (
        await read_missed(fake_view.reader, fake_view.build, WHOLE, position, changed_keys=fake_view.touched)
        is None
    )


async def test_client_starts_from_a_time() -> None:
    fake_view = Written()
    now = 1_000_000
    fake_view.store.clock = lambda: now / 1000
    rows = {}
    for step in range(6):
        fake_view.put((f"k{step % 4}", {"s": "f", "n": step}))
        now += 1_000
        fake_view.writer.save_checkpoint(fake_view.build, 1, 100)
        rows[now] = fake_view.rows()
    await registered(fake_view, WHOLE)
    for time in (1_002_000, 1_002_900, 1_006_000, 2_000_000):
        found = await read_missed(fake_view.reader, fake_view.build, WHOLE, time)
        assert found is not None
        before = rows[min(time, 1_006_000) // 1000 * 1000]
        assert (found.tier, folded(before, found)) == ("log", fake_view.rows())
    early = await read_missed(fake_view.reader, fake_view.build, WHOLE, 1_000_500)
    assert early is None, "nothing was noted so early"


async def test_timed_query_does_not_start_from_a_position() -> None:
    fake_view = Written()
    query = Query.parse(VIEW, "at > now()")
    fake_view.put(("a", {"at": 1 << 50}))
    position = Position(fake_view.epoch, fake_view.seq)
    fake_view.put(("b", {"at": 1 << 50}))
    await registered(fake_view, query)
    assert await read_missed(fake_view.reader, fake_view.build, query, position, as_rows=True) is None


async def test_hub_starts_from_a_position() -> None:
    fake_view = Written()
    fake_view.put(("a", {"s": "f"}), ("b", {"s": "f"}), ("c", {"s": "g"}))
    position, rows = Position(fake_view.epoch, fake_view.seq), of(FOOTBALL, fake_view.rows())
    fake_view.put(("a", {"s": "f", "n": 1}), ("b", {"s": "g"}))
    async with hub_of(fake_view) as hub:
        sink = NewerSink(rows, position)
        await hub.join(request(FILTERED, since=position), sink)
        outcome = sink.outcomes[0]
        assert isinstance(outcome, Recovered)
        assert (outcome.tier, outcome.all_or_nothing, sink.rows) == ("log", True, {"a": {"s": "f", "n": 1}})
        fake_view.put(("c", {"s": "f"}))
        await until(lambda: sink.rows == of(FOOTBALL, fake_view.rows()))
        # The query is registered now: subscribers that start from here on are sent each change.
        later = NewerSink(sink.rows, sink.position)
        fake_view.put(("c", {"s": "f", "n": 5}))
        await hub.join(request(FILTERED, since=later.position), later)
        result = later.outcomes[0]
        assert isinstance(result, Recovered)
        assert (result.all_or_nothing, [json.loads(data)["op"] for _, data in result.publications]) == (
            False,
            ["change"],
        )
        # Another epoch, or an impossible position: a snapshot, and that it was not recovered.
        for strange in (Position("other", 1), Position(fake_view.epoch, 10_000)):
            anew = FoldingSink()
            await hub.join(request(FILTERED, since=strange), anew)
            state = anew.outcomes[0]
            assert isinstance(state, Initial)
            assert (state.recovering, anew.rows) == (True, of(FOOTBALL, fake_view.rows()))


async def test_hub_replays_records() -> None:
    fake_view, position = await away()
    rows = fake_view.past[position.seq]
    async with hub_of(fake_view, changed_keys=fake_view.touched) as hub:
        sink = NewerSink(rows, position)
        await hub.join(request(WHOLE_VIEW, position=position), sink)
        outcome = sink.outcomes[0]
        assert isinstance(outcome, Recovered)
        assert (outcome.tier, sink.rows) == ("replay", fake_view.rows())
        fake_view.put(("new", {"n": 1}))
        await until(lambda: sink.rows == fake_view.rows())


class NewerSink(FoldingSink):
    """A subscriber that has rows already."""

    def __init__(self, rows: dict[str, Any], position: Position | None) -> None:
        super().__init__()
        self.rows, self.position = dict(rows), position

    def _fold(self, epoch: str, pubs: Any) -> None:
        assert self.position is not None
        if isinstance(self.outcomes[-1], Recovered) and self.outcomes[-1].publications is pubs:
            self.rows = folded(self.rows, self.outcomes[-1])
        else:
            super()._fold(epoch, pubs)

    def send_outcome(self, outcome: Any) -> None:
        if isinstance(outcome, Recovered) and outcome.all_or_nothing:
            self.attached = True
            self.outcomes.append(outcome)
            self.rows = folded(self.rows, outcome)
            self.position = Position(outcome.epoch, outcome.seq)
        else:
            super().send_outcome(outcome)
