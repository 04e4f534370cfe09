"""Time passes for a view in micro-batches while no batch runs, and batches take their partitions back."""

from __future__ import annotations

import json

import pytest

from distributary.model.build import Build
from distributary.model.query import Query
from distributary.model.view import View
from distributary.reducers import live_queries
from distributary.reducers.idle_ticker import IdleTicker
from distributary.reducers.record_codec import Packed
from distributary.reducers.reduce_rules import rule_of
from distributary.reducers.reducer import Reducer, ReducerOptions
from distributary.store.errors import Fenced
from distributary.store.memory_store import MemoryStore

BUILD = Build("v", "b")
VIEW = View("v", "f", ttl=10.0)


class Quiet:
    """A view of two partitions, a clock of our own, and a batch's task for each record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        monkeypatch.setattr(live_queries, "_local_clock", lambda: self.now)
        self.store = MemoryStore(clock=lambda: self.now / 1000)
        self.store.writer.define("v", "b", "{}")
        self.store.writer.go_live(BUILD)
        self.claim = self.store.writer.claim(BUILD, "t", 2).claim
        self.made: list[int] = []
        self.keeper = IdleTicker(self.store.writer, BUILD, VIEW, 2, self.make)

    def make(self, partition: int) -> Reducer:
        self.made.append(partition)
        return Reducer(
            self.store.writer,
            BUILD,
            partition,
            self.claim,
            ReducerOptions(view=VIEW, rule=rule_of(VIEW), write_dead_letters=lambda letters: None),
        )

    def task(self, partition: int) -> Reducer:
        found = self.make(partition)
        found.open()
        return found

    def fold(self, task: Reducer, offset: int, key: str, starts: int = 0) -> None:
        body = json.dumps({"starts": starts}).encode()
        task.fold([Packed(task.partition, offset, self.now, self.now, key.encode(), body, False)])

    def keys(self) -> set[str]:
        found = self.store.writer.scan(BUILD, 0, 100)[1]
        return {key for key, _ in found}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Quiet:
    return Quiet(monkeypatch)


def test_idle_ticker_opens_a_partition_only_when_rows_expire(quiet: Quiet) -> None:
    for partition in (0, 1):
        quiet.fold(quiet.task(partition), 0, f"p{partition}")
    quiet.made.clear()
    assert quiet.keeper.step() == 0
    assert quiet.made == [], "a partition is taken only for what is due"
    quiet.now += 10_001
    assert quiet.keeper.step() == 2
    assert quiet.keys() == set()
    assert quiet.made == [0, 1]


async def test_idle_ticker_yields_partition_to_a_batch_and_takes_it_back(quiet: Quiet) -> None:
    query = Query.parse("v", "starts > now()")
    quiet.fold(quiet.task(0), 0, "a", quiet.now + 2_000)
    await quiet.store.reader.register("v", query.id, query.text, "s", 60_000, True)
    quiet.keeper.step()
    task = quiet.task(0)
    quiet.fold(task, 1, "b", quiet.now + 3_000)
    quiet.now += 2_001
    assert quiet.keeper.step() == 0, "a task has been there since: only that is noticed"
    assert quiet.keeper.step() == 1, "a left"
    with pytest.raises(Fenced):
        quiet.fold(task, 2, "c")
    task.open()
    quiet.fold(task, 2, "c", quiet.now + 9_000)
    quiet.now += 1_000
    quiet.keeper.step()
    assert quiet.keeper.step() == 1, "b left"
    assert quiet.keys() == {"a", "b", "c"}
