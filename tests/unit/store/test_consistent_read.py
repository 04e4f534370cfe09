"""Reads of an unregistered query are true at one position while writes go on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from tests.support.fake_view import VIEW, FakeView

from distributary.errors import ResultTooLarge
from distributary.model.query import Query
from distributary.store import consistent_read
from distributary.store.build_scan import StaleRead, belongs
from distributary.store.consistent_read import QueryRows, read_unregistered
from distributary.store.row_index import entry
from distributary.store.store_types import RowPage

BUCKETS = 8
MAX_BYTES = 1 << 30
MEDDLED = ("page", "log", "rows")


class Meddling:
    """A reader behind whose back something happens before and after each read.

    Its pages are buckets of keys, as a scan of a hash table gives them.
    """

    def __init__(self, fake_view: FakeView, meddle: Callable[[str], None]) -> None:
        self._fake_view = fake_view
        self._meddle = meddle
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._fake_view.reader, name)

        async def call(*args: Any) -> Any:
            self.calls.append(name)
            self._meddle(name)
            try:
                if name != "page":
                    return await inner(*args)
                rows = self._fake_view.store.views[VIEW].builds["b1"].rows.items()
                bucket = [pair for pair in rows if crc32(pair[0].encode()) % BUCKETS == args[1]]
                return RowPage(self._fake_view.epoch, self._fake_view.seq, (args[1] + 1) % BUCKETS, bucket)
            finally:
                self._meddle(name)

        return call


def matching(fake_view: FakeView, query: Query) -> dict[str, Any]:
    return {k: row for k, row in fake_view.rows().items() if belongs(query, k, json.dumps(row).encode())}


def shown(state: QueryRows) -> dict[str, Any]:
    return {key: json.loads(row.json) for key, row in state.rows.items()}


def counted(state: QueryRows) -> int:
    return sum(len(key) + len(row.json) + consistent_read.ROW_BYTES for key, row in state.rows.items())


def filled(rows: int = 30) -> FakeView:
    fake_view = FakeView()
    for n in range(rows):
        fake_view.put((f"k{n:02}", {"s": "fg"[n % 2], "n": n}))
    return fake_view


class Chance:
    """Changes rows at random, and remembers what the query had after each change."""

    def __init__(self, seed: int, fake_view: FakeView, query: Query, most: int) -> None:
        self.random = random.Random(seed)
        self.fake_view, self.query, self.most = fake_view, query, most
        self.history = {fake_view.seq: matching(fake_view, query)}

    def __call__(self, name: str) -> None:
        for _ in range(self.random.randrange(self.most)):
            key = f"k{self.random.randrange(35):02}"
            gone = key in self.fake_view.rows() and self.random.random() < 0.4
            row = {"s": self.random.choice("fg"), "n": self.random.randrange(99)}
            self.fake_view.put((key, None if gone else row))
            self.history[self.fake_view.seq] = matching(self.fake_view, self.query)


@pytest.mark.parametrize("most", [2, 4])
@pytest.mark.parametrize("seed", range(60))
async def test_read_is_consistent_with_writes_between_pages(seed: int, most: int) -> None:
    fake_view = filled()
    query = Query.parse(VIEW, random.Random(seed).choice([None, "s = 'f'"]))
    chance = Chance(seed, fake_view, query, most)
    store: Any = Meddling(fake_view, chance)
    found = await read_unregistered(store, fake_view.build, query, max_bytes=MAX_BYTES)
    assert found.epoch == fake_view.epoch
    assert shown(found) == chance.history[found.seq]
    assert found.size == counted(found)
    # What is known is brought up to date by what changed, and is itself left as it was.
    before = shown(found)
    chance("")
    store.calls.clear()
    later = await read_unregistered(store, fake_view.build, query, found, max_bytes=MAX_BYTES)
    assert shown(later) == chance.history[later.seq]
    assert later.seq >= found.seq
    assert later.size == counted(later)
    assert shown(found) == before


async def test_known_state_is_updated_without_reading_pages() -> None:
    fake_view = filled()
    store: Any = Meddling(fake_view, lambda name: None)
    known = await read_unregistered(store, fake_view.build, Query(VIEW), max_bytes=MAX_BYTES)
    store.calls.clear()
    assert await read_unregistered(store, fake_view.build, Query(VIEW), known, max_bytes=MAX_BYTES) == known
    assert store.calls == ["log"]
    fake_view.put(("k01", {"s": "f", "n": -1}), ("new", {"n": 0}), ("k02", None))
    found = await read_unregistered(store, fake_view.build, Query(VIEW), known, max_bytes=MAX_BYTES)
    assert shown(found) == fake_view.rows()
    assert "page" not in store.calls


async def test_state_beyond_the_log_is_read_again() -> None:
    fake_view = FakeView(log_length=1)
    fake_view.put(("a", {"n": 1}))
    known = await read_unregistered(fake_view.reader, fake_view.build, Query(VIEW), max_bytes=MAX_BYTES)
    for n in range(5):
        fake_view.put(("a", {"n": n}), ("b", {"n": n}))
    found = await read_unregistered(
        fake_view.reader, fake_view.build, Query(VIEW), known, max_bytes=MAX_BYTES
    )
    assert (shown(found), found.seq) == (fake_view.rows(), fake_view.seq)


async def test_read_starts_over_when_the_epoch_changes_between_pages() -> None:
    fake_view = filled(10)
    calls: list[str] = []

    def meddle(name: str) -> None:
        calls.append(name)
        if len(calls) == 5:
            fake_view.crash()

    store: Any = Meddling(fake_view, meddle)
    found = await read_unregistered(store, fake_view.build, Query(VIEW), max_bytes=MAX_BYTES)
    assert (found.epoch, len(found.rows)) == (fake_view.epoch, 10)


async def test_read_gives_up_on_rows_that_change_at_every_attempt() -> None:
    fake_view = filled(10)
    fresh = iter(range(10_000))

    def meddle(name: str) -> None:
        # Two rows of their own at every look: whatever is read again, others changed meanwhile, and again.
        n = next(fresh)
        fake_view.put((f"n{n // 4}", {"n": n}), (f"m{n // 2}", {"n": n}))

    store: Any = Meddling(fake_view, meddle)
    with pytest.raises(StaleRead):
        await read_unregistered(store, fake_view.build, Query(VIEW), max_bytes=MAX_BYTES)


async def test_query_by_key_reads_only_those_rows() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}))
    store: Any = Meddling(fake_view, lambda name: None)
    found = await read_unregistered(
        store, fake_view.build, Query.of_keys(VIEW, ["b", "c"]), max_bytes=MAX_BYTES
    )
    assert (found.seq, shown(found), store.calls) == (2, {"b": {"n": 2}}, ["rows"])


async def test_read_is_refused_as_soon_as_it_exceeds_its_bytes() -> None:
    fake_view = filled(30)
    store: Any = Meddling(fake_view, lambda name: None)
    with pytest.raises(ResultTooLarge, match="exceed 1,000 bytes"):
        await read_unregistered(store, fake_view.build, Query(VIEW), max_bytes=1_000)
    assert len(store.calls) < BUCKETS
    assert (
        len(
            (
                await read_unregistered(store, fake_view.build, Query.parse(VIEW, "n = 1"), max_bytes=1_000)
            ).rows
        )
        == 1
    )


async def test_query_by_indexed_value_reads_only_those_rows() -> None:
    fake_view = filled(30)
    build = fake_view.store.views[VIEW].builds["b1"]
    build.index.update(entry("s", f"s{row['s']}", key) for key, row in fake_view.rows().items())  # type: ignore[index]
    store: Any = Meddling(fake_view, lambda name: None)
    query = Query.parse(VIEW, "s = 'f' and n > 9")
    found = await read_unregistered(store, fake_view.build, query, max_bytes=MAX_BYTES, index=["s"])
    assert (store.calls, shown(found), found.seq) == (
        ["find_by_index"],
        matching(fake_view, query),
        fake_view.seq,
    )
    assert found.size == counted(found)
    for text, index in (("s = 'f'", ["n"]), ("s != 'g'", ["s"])):
        store.calls.clear()
        await read_unregistered(
            store, fake_view.build, Query.parse(VIEW, text), max_bytes=MAX_BYTES, index=index
        )
        assert "find_by_index" not in store.calls
