"""Rows come to and leave queries with ``now()`` as time passes, exactly, whatever happens meanwhile (R11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.model.build import Build
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers import live_queries
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.reducers.row_json import read_object
from distributary.store.memory_store import MemoryStore

BUILD = Build("v", "b")
VIEW = View("v", "f", key="k")

FILTERS = (
    "starts < now() + 1m",
    "starts between now() - 10s and now() + 10s",
    "starts > now() and sport = 'x'",
    "sport = 'x'",
    "ends <= now() or starts > now() + 2m",
)


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_queries, "_local_clock", lambda: CLOCK["now"])


CLOCK = {"now": 0}
"""The one clock of the store and of the reducer."""


class TimedView:
    """One partition, a clock of our own, and subscribers that only know their first rows and the log."""

    def __init__(self) -> None:
        CLOCK["now"] = 1_000_000
        self.store = MemoryStore(clock=lambda: CLOCK["now"] / 1000)
        self.store.writer.define("v", "b", "{}")
        self.store.writer.go_live(BUILD)
        self.claim = self.store.writer.claim(BUILD, "t", 1).claim
        self.offset = 0
        self.subscribers: dict[int, tuple[Query, set[str]]] = {}
        self.read = 0
        self.open()

    @property
    def now(self) -> int:
        return CLOCK["now"]

    def later(self, ms: int) -> None:
        CLOCK["now"] += ms

    def open(self) -> None:
        self.reducer = Reducer(
            self.store.writer,
            BUILD,
            0,
            self.claim,
            ReducerOptions(view=VIEW, rule=rule_of(VIEW), write_dead_letters=lambda letters: None),
        )
        self.reducer.open()

    def fold(self, key: str, value: dict[str, Any] | None) -> None:
        body = None if value is None else json.dumps(value).encode()
        self.reducer.fold(
            [
                Packed(
                    partition=0,
                    offset=self.offset,
                    time=self.now,
                    event_time=self.now,
                    key=key.encode(),
                    value=body,
                    unparsed=False,
                )
            ]
        )
        self.offset += 1

    def tick(self) -> None:
        self.reducer.tick()
        while self.reducer.wait() == 0.0:
            self.reducer.tick()

    async def rows(self, query: Query) -> set[str]:
        """The query's rows at the time that the store says they are of."""
        page = await self.store.reader.page(BUILD, 0, 1000)
        return {
            key
            for key, row in page.rows
            if query.matches(key, read_object(row.json), page.clocks.get(row.owner, self.now))
        }

    async def subscribe(self, text: str) -> None:
        query = Query.parse("v", text)
        await self.catch_up()
        made = await self.store.reader.register(
            "v",
            query_id=query.id,
            text=query.text,
            subscription=f"s{self.read}{text}",
            ttl_ms=10**9,
            begun=True,
        )
        self.subscribers.setdefault(made.number, (query, await self.rows(query)))

    async def catch_up(self) -> None:
        """Apply all changes, and check that none comes twice."""
        log = await self.store.reader.log(BUILD, self.read, 10_000)
        for entry in log.entries:
            for seq, change in entry.numbered():
                if seq <= self.read:
                    continue
                self.read = seq
                for number, (_, members) in self.subscribers.items():
                    if number in change.adds:
                        assert change.key not in members, "added twice"
                        assert change.row
                        members.add(change.key)
                    elif number in change.removes:
                        members.remove(change.key)
                    elif number in change.changes:
                        assert change.key in members


# Few and coarse values, so that rows, times and filters meet often.
times = st.integers(-3, 6).map(lambda halves: 1_000_000 + halves * 30_000)
values = st.fixed_dictionaries({"starts": times}, optional={"ends": times, "sport": st.sampled_from("xy")})
steps = st.one_of(
    st.tuples(st.just("fold"), st.sampled_from("ab"), values),
    st.tuples(st.just("fold"), st.sampled_from("ab"), st.none() | values),
    st.tuples(st.just("time"), st.sampled_from([1, 15_000, 30_000, 60_000]), st.none()),
    st.tuples(st.just("time"), st.sampled_from([15_000, 30_000, 60_000]), st.none()),
    st.tuples(st.just("tick"), st.none(), st.none()),
    st.tuples(st.just("subscribe"), st.sampled_from(FILTERS), st.none()),
    st.tuples(st.just("restart"), st.booleans(), st.none()),
    st.tuples(st.just("refresh"), st.none(), st.none()),
)


@settings(max_examples=800, deadline=None)
@given(st.lists(steps, min_size=5, max_size=30))
async def test_subscribers_of_timed_queries_have_the_rows_of_the_time(
    plan: list[tuple[str, Any, Any]],
) -> None:
    view = TimedView()
    for what, one, two in plan:
        if what == "fold":
            view.fold(one, two)
        elif what == "time":
            view.later(one)
        elif what == "tick":
            view.tick()
        elif what == "subscribe":
            await view.subscribe(one)
        elif what == "refresh":
            view.reducer.refresh()
        else:
            if one:
                view.store.restart()
                view.claim = view.store.writer.claim(BUILD, "t", 1).claim
            view.open()
        await view.catch_up()
        for query, members in view.subscribers.values():
            assert members == await view.rows(query)
    # The registry reaches the reducer by the next write or refresh; then time passes for all.
    view.reducer.refresh()
    view.tick()
    await view.catch_up()
    page = await view.store.reader.page(BUILD, 0, 1000)
    for query, members in view.subscribers.values():
        assert members == {
            key for key, row in page.rows if query.matches(key, read_object(row.json), view.now)
        }


async def test_timed_query_that_is_registered_while_rows_are_due_misses_none() -> None:
    """The due rows were read before the new query was known: they must be read again."""
    view = TimedView()
    view.fold("a", {"starts": view.now + 90_000})
    view.fold("b", {"starts": view.now + 30_000})
    await view.subscribe("starts < now() + 1m")
    view.reducer.refresh()
    view.tick()
    await view.subscribe("starts between now() - 10s and now() + 10s")
    view.later(31_000)
    view.tick()
    await view.catch_up()
    assert [members for _, members in view.subscribers.values()] == [{"a", "b"}, {"b"}]
