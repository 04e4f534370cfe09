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


class IdleView:
    """A view of two partitions, a clock of our own, and a batch's task for each record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        monkeypatch.setattr(live_queries, "_local_clock", lambda: self.now)
        self.store = MemoryStore(clock=lambda: self.now / 1000)
        self.store.writer.define("v", "b", "{}")
        self.store.writer.go_live(BUILD)
        self.claim = self.store.writer.claim(BUILD, "t", 2).claim
        self.created: list[int] = []
        self.ticker = IdleTicker(self.store.writer, BUILD, VIEW, 2, self.create)

    def create(self, partition: int) -> Reducer:
        self.created.append(partition)
        return Reducer(
            self.store.writer,
            BUILD,
            partition,
            self.claim,
            ReducerOptions(view=VIEW, rule=rule_of(VIEW), write_dead_letters=lambda letters: None),
        )

    def task(self, partition: int) -> Reducer:
        found = self.create(partition)
        found.open()
        return found

    def fold(self, task: Reducer, offset: int, key: str, starts: int = 0) -> None:
        body = json.dumps({"starts": starts}).encode()
        task.fold(
            [
                Packed(
                    partition=task.partition,
                    offset=offset,
                    time=self.now,
                    event_time=self.now,
                    key=key.encode(),
                    value=body,
                    unparsed=False,
                )
            ]
        )

    def keys(self) -> set[str]:
        found = self.store.writer.scan(BUILD, 0, 100)[1]
        return {key for key, _ in found}


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> IdleView:
    return IdleView(monkeypatch)


def test_idle_ticker_opens_a_partition_only_when_rows_expire(idle: IdleView) -> None:
    for partition in (0, 1):
        idle.fold(idle.task(partition), 0, f"p{partition}")
    idle.created.clear()
    assert idle.ticker.step() == 0
    assert idle.created == [], "a partition is taken only for what is due"
    idle.now += 10_001
    assert idle.ticker.step() == 2
    assert idle.keys() == set()
    assert idle.created == [0, 1]


async def test_idle_ticker_yields_partition_to_a_batch_and_takes_it_back(idle: IdleView) -> None:
    query = Query.parse("v", "starts > now()")
    idle.fold(idle.task(0), 0, "a", idle.now + 2_000)
    await idle.store.reader.register(
        "v", query_id=query.id, text=query.text, subscription="s", ttl_ms=60_000, begun=True
    )
    idle.ticker.step()
    task = idle.task(0)
    idle.fold(task, 1, "b", idle.now + 3_000)
    idle.now += 2_001
    assert idle.ticker.step() == 0, "a task has been there since: only that is noticed"
    assert idle.ticker.step() == 1, "a left"
    with pytest.raises(Fenced):
        idle.fold(task, 2, "c")
    task.open()
    idle.fold(task, 2, "c", idle.now + 9_000)
    idle.now += 1_000
    idle.ticker.step()
    assert idle.ticker.step() == 1, "b left"
    assert idle.keys() == {"a", "b", "c"}
