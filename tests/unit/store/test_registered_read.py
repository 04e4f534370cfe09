"""Reads of a registered query are true at one position while writes go on."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock
from zlib import crc32

import pytest
from tests.support.fake_view import VIEW, FakeView

from distributary.model.build import Build
from distributary.model.query import Query
from distributary.store.build_scan import StaleRead, belongs
from distributary.store.consistent_read import ClockUnknown, read_registered
from distributary.store.store_types import Row, RowPage, RowsRead

BUILD = Build(VIEW, "b1")
BUCKETS = 8


class Meddling:
    """A reader behind whose back something happens before each page and each piece of the log.

    Its pages are buckets of keys, as a scan of a hash table gives them.
    """

    def __init__(self, fake_view: FakeView, meddle: Any) -> None:
        self._fake_view = fake_view
        self._meddle = meddle

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._fake_view.reader, name)

        async def call(*args: Any) -> Any:
            if name in ("page", "log"):
                self._meddle(name)
            if name == "page":
                rows = self._fake_view.store.views[VIEW].builds["b1"].rows.items()
                bucket = [pair for pair in rows if crc32(pair[0].encode()) % BUCKETS == args[1]]
                return RowPage(self._fake_view.epoch, self._fake_view.seq, (args[1] + 1) % BUCKETS, bucket)
            return await inner(*args)

        return call


def matching(fake_view: FakeView, query: Query) -> dict[str, Any]:
    return {
        key: row for key, row in fake_view.rows().items() if belongs(query, key, json.dumps(row).encode())
    }


def some_row(chance: random.Random) -> dict[str, Any]:
    row = {"s": chance.choice("fg"), "n": chance.randrange(99)}
    return row | {"m": 1} if chance.random() < 0.3 else row


async def known(fake_view: FakeView, query: Query) -> int:
    """Register a query; give its number."""
    return (
        await fake_view.reader.register(
            VIEW, query_id=query.id, text=query.text, subscription="S", ttl_ms=60_000, begun=True
        )
    ).number


@pytest.mark.parametrize("seed", range(20))
async def test_registered_read_is_consistent_with_writes_between_pages(seed: int) -> None:
    chance = random.Random(seed)
    fake_view = FakeView()
    for n in range(30):
        fake_view.put((f"k{n:02}", {"s": chance.choice("fg"), "n": n}))
    history: dict[int, dict[str, Any]] = {}
    query = Query.parse(VIEW, chance.choice([None, "s = 'f'"]))
    number = await known(fake_view, query)
    history[fake_view.seq] = matching(fake_view, query)

    def meddle(name: str) -> None:
        for _ in range(chance.randrange(4)):
            key = f"k{chance.randrange(35):02}"
            gone = key in fake_view.rows() and chance.random() < 0.4
            fake_view.put((key, None if gone else some_row(chance)))
            history[fake_view.seq] = matching(fake_view, query)

    store: Any = Meddling(fake_view, meddle)
    found = await read_registered(store, fake_view.build, query, number)
    assert found.epoch == fake_view.epoch
    assert {key: json.loads(row) for key, row in found.rows} == history[found.seq]


async def test_registered_read_starts_over_when_the_epoch_changes() -> None:
    fake_view = FakeView()
    for n in range(10):
        fake_view.put((f"k{n}", {"n": n}))
    crashed: list[str] = []

    def meddle(name: str) -> None:
        crashed.append(name)
        if len(crashed) == 2:
            fake_view.crash()

    store: Any = Meddling(fake_view, meddle)
    found = await read_registered(store, fake_view.build, Query(VIEW), await known(fake_view, Query(VIEW)))
    assert (found.epoch, len(found.rows)) == (fake_view.epoch, 10)


async def test_read_gives_up_when_the_log_is_cut_too_fast() -> None:
    fake_view = FakeView(log_length=1)
    for n in range(10):
        fake_view.put((f"k{n}", {"n": n}))

    def meddle(name: str) -> None:
        for n in range(5):
            fake_view.put((f"k{n}", {"n": -n}))

    store: Any = Meddling(fake_view, meddle)
    with pytest.raises(StaleRead):
        await read_registered(store, fake_view.build, Query(VIEW), await known(fake_view, Query(VIEW)))


async def test_registered_query_by_key_reads_only_those_rows() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}))
    found = await read_registered(fake_view.reader, fake_view.build, Query.of_keys(VIEW, ["b", "c"]), 1)
    assert (found.seq, found.rows) == (2, [("b", b'{"n":2}')])


def test_row_that_is_not_an_object_has_no_fields() -> None:
    assert not belongs(Query.parse(VIEW, "a = 1"), "k", b"[1]")
    assert belongs(Query.parse(VIEW, "a = null"), "k", b'"text"')
    assert belongs(Query(VIEW), "k", b"[1]")


class Indexed:
    """A reader whose pages may not be read: the index must do."""

    def __init__(self, found: RowsRead | None) -> None:
        self.calls: list[tuple[str, str]] = []
        self._found = found

    async def find_by_index(self, build: Any, field: str, value: str, limit: int) -> RowsRead | None:
        self.calls.append((field, value))
        return self._found

    async def page(self, *_: Any) -> RowPage:
        return RowPage("e", 9, 0, [("other", Row(1, 0, 0, b'{"s":"f","n":5}'))])


async def test_registered_query_by_indexed_value_reads_only_those_rows() -> None:
    rows = [("a", Row(1, 0, 0, b'{"s":"f","n":1}')), ("b", Row(2, 0, 0, b'{"s":"f","n":9}'))]
    query = Query.parse(VIEW, "s = 'f' and n < 5")
    store: Any = Indexed(RowsRead("e", 7, rows, {}))
    read = await read_registered(store, BUILD, query, 1, index=["s"])
    assert (read.epoch, read.seq, read.rows) == ("e", 7, [("a", b'{"s":"f","n":1}')])
    assert store.calls == [("s", "sf")]
    # Too many rows under the value, a field that is not indexed, no equality: page by page.
    for text, index, found in (("s = 'f'", ["s"], None), ("s = 'f'", ["n"], read), ("s != 'g'", ["s"], read)):
        other: Any = Indexed(None if found is None else RowsRead("e", 7, rows, {}))
        paged = await read_registered(other, BUILD, Query.parse(VIEW, text), 1, index=index)
        assert [key for key, _ in paged.rows] == ["other"]


async def test_timed_query_fails_on_rows_without_a_clock() -> None:
    rows = [("a", Row(1, 0, 0, b'{"t":1000}')), ("b", Row(2, 1, 0, b'{"t":1000}'))]
    query = Query.of_keys(VIEW, ["a", "b"]).narrowed("t < now()")
    store: Any = SimpleNamespace(rows=AsyncMock(return_value=RowsRead("e", 7, rows, {0: 1001})))
    with pytest.raises(ClockUnknown):
        await read_registered(store, BUILD, query, 1)
    store.rows.return_value = RowsRead("e", 7, rows, {0: 1001, 1: 999})
    assert [key for key, _ in (await read_registered(store, BUILD, query, 1)).rows] == ["a"]
