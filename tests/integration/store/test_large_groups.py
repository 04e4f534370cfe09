"""Groups of megabytes in the log: reads are limited, and do not copy what they do not need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import redis
from tests.support.fake_view import VIEW, FakeView
from tests.support.servers import StoreServer

from distributary.model.build import Build
from distributary.store.contract import LOG_BYTES
from distributary.store.log_events import Attached, Entries, TailEvent
from distributary.store.log_tail import FEW
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

MEGABYTE = "x" * 1_000_000
BUILD = Build(VIEW, "b1")


@pytest.fixture
async def reader(store: StoreServer) -> AsyncIterator[RedisReader]:
    made = RedisReader(store.url)
    yield made
    await made.close()


async def sent(store: StoreServer, call: Callable[[], Awaitable[object]]) -> int:
    """How many bytes the server sends for a call."""
    with redis.Redis.from_url(store.url) as admin:
        before = admin.info("stats")["total_net_output_bytes"]
        await call()
        return int(admin.info("stats")["total_net_output_bytes"] - before)


async def test_floor_is_read_without_the_oldest_group(store: StoreServer, reader: RedisReader) -> None:
    fake_view = FakeView(writer=RedisWriter(store.url))
    await reader.register(VIEW, query_id="q1", text="{}", subscription="s1", ttl_ms=60_000, begun=True)
    fake_view.put(("a", {"filler": MEGABYTE}), ("b", {"n": 1}))
    fake_view.put(("a", {"n": 1}))
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: reader.query_state(VIEW, "q1"),
        lambda: reader.build(BUILD),
        lambda: reader.log(BUILD, 2, 100),
    ]
    for call in calls:
        assert await sent(store, call) < 20_000
    state, info = await reader.query_state(VIEW, "q1"), await reader.build(BUILD)
    assert state is not None
    assert info is not None
    read = await reader.log(BUILD, 2, 100)
    assert state.floor == info.floor == read.floor == 0
    assert [entry.last for entry in read.entries] == [3]


async def followed(tail: AsyncIterator[TailEvent], count: int) -> list[int]:
    """Follow until so many groups of one change have come, in order; gives the bytes of each portion."""
    numbers: list[int] = []
    portions: list[int] = []
    while len(numbers) < count:
        event = await anext(tail)
        assert isinstance(event, Entries)
        numbers += [entry.last for entry in event.entries]
        portions.append(sum(len(c.row) + len(c.fields) for e in event.entries for c in e.changes))
    assert numbers == list(range(1, count + 1))
    return portions


async def test_follower_reads_a_backlog_in_portions(store: StoreServer, reader: RedisReader) -> None:
    fake_view = FakeView(writer=RedisWriter(store.url))
    tail = reader.tail(VIEW)
    try:
        assert isinstance(await anext(tail), Attached)
        for number in range(40):
            fake_view.put(("a", {"n": number, "filler": MEGABYTE}))
        portions = await followed(tail, 40)
        assert max(portions) <= max(FEW, LOG_BYTES // 1_000_000 + 1) * 1_010_000
        fake_view.put(("a", {"n": 41}))
        event = await anext(tail)
        assert isinstance(event, Entries)
        assert [entry.last for entry in event.entries] == [41]
    finally:
        await tail.aclose()


async def test_follower_reads_small_groups_in_few_portions(store: StoreServer, reader: RedisReader) -> None:
    fake_view = FakeView(writer=RedisWriter(store.url))
    tail = reader.tail(VIEW)
    try:
        assert isinstance(await anext(tail), Attached)
        for number in range(1_000):
            fake_view.put(("a", {"n": number}))
        portions = await followed(tail, 1_000)
        assert len(portions) <= 3
    finally:
        await tail.aclose()
