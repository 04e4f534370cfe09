from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.clock import LIMIT
from tests.support.servers import free_port
from tests.unit.subscriber.server import TinyPublisher

import distributary
from distributary.errors import BadQuery, StackNotRunning, SubscribeError
from distributary.subscriber.async_subscriber import Changes, reconnect_delay, subscribe
from distributary.subscriber.subscribed_change import SubscribedChange


async def test_subscriber_delivers_a_snapshot_then_changes(publisher: TinyPublisher) -> None:
    publisher.rows = {"a": {"n": 1}}
    async with asyncio.timeout(5 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        assert changes.rows == {"a": {"n": 1}}
        assert (await anext(changes)).op == "snapshot"
        await publisher.write("b", {"n": 2})
        await publisher.write("a", None)
        added, removed = await anext(changes), await anext(changes)
        assert (added.op, added.key, added.row, str(added.position)) == ("add", "b", {"n": 2}, "e1:1")
        assert (removed.op, removed.key) == ("remove", "a")
        assert changes.rows == {"b": {"n": 2}}


async def test_query_becomes_the_channel(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(5 * LIMIT):
        async with subscribe("odds", where="sport = 'football'", url=publisher.url):
            pass
        async with subscribe("odds", keys=(key for key in "ab"), url=publisher.url):
            pass
    channels = [request["channel"] for request in publisher.requests]
    assert channels == ["odds?where=sport%20%3D%20'football'", "odds?keys=a,b"]


async def test_lost_connection_is_resumed_without_a_gap(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(10 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        await anext(changes)
        await publisher.write("a", {"n": 1})
        assert (await anext(changes)).key == "a"
        await publisher.drop()
        await publisher.write("b", {"n": 2})
        await publisher.write("c", {"n": 3})
        assert [(await anext(changes)).key, (await anext(changes)).key] == ["b", "c"]
        assert publisher.requests[-1]["offset"] == 1


async def test_lost_position_leads_to_a_snapshot(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(10 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        await anext(changes)
        publisher.epoch, publisher.rows = "e2", {"z": {}}
        await publisher.drop()
        change = await anext(changes)
        assert (change.op, changes.rows) == ("snapshot", {"z": {}})


async def test_another_publisher_is_tried(publisher: TinyPublisher) -> None:
    dead = f"ws://127.0.0.1:{free_port()}/connection/websocket"
    async with asyncio.timeout(10 * LIMIT), subscribe("odds", url=[dead, publisher.url]) as changes:
        assert (await anext(changes)).op == "snapshot"


async def test_staleness_is_delivered(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(5 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        await anext(changes)
        await publisher.say({"data": {"op": "stale", "since": 5}})
        change = await anext(changes)
        assert (change.op, change.time, changes.stale) == ("stale", 5, True)
        await publisher.say({"data": {"op": "fresh"}})
        assert (await anext(changes)).op == "fresh"
        assert not changes.stale


async def test_terminal_code_raises(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(5 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        await anext(changes)
        await publisher.drop(3500, b"gone for good")
        for _ in range(2):
            with pytest.raises(SubscribeError, match="gone for good"):
                await anext(changes)


async def test_unknown_view_raises_at_once(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(5 * LIMIT):
        with pytest.raises(SubscribeError, match="unknown channel"):
            async with subscribe("unknown", url=publisher.url):
                pytest.fail("entered")


async def test_missing_publisher_raises_in_time() -> None:
    with pytest.raises(StackNotRunning, match="no snapshot of 'odds'"):
        async with subscribe("odds", url=f"ws://127.0.0.1:{free_port()}", timeout=0.3):
            pytest.fail("entered")


def test_invalid_query_raises_before_connecting() -> None:
    with pytest.raises(BadQuery):
        subscribe("odds", where="sport =")
    with pytest.raises(BadQuery):
        subscribe("odds", keys=[])


async def test_closing_ends_the_iteration(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(5 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        await anext(changes)
        waiting = asyncio.create_task(_all(changes))
        await asyncio.sleep(0)  # one turn of the loop: it waits for an item now
        await changes.close()
        assert await waiting == []


async def _all(changes: Changes) -> list[SubscribedChange]:
    return [change async for change in changes]


async def test_take_returns_all_waiting_changes(publisher: TinyPublisher) -> None:
    async with asyncio.timeout(5 * LIMIT), subscribe("odds", url=publisher.url) as changes:
        for n in range(20):
            await publisher.write(str(n), {"n": n})
        keys: list[str | None] = []
        while len(keys) < 21:
            keys += [change.key for change in await changes.take()]
        assert keys == [None, *map(str, range(20))]


def test_delay_grows_after_all_addresses_were_tried() -> None:
    assert max(reconnect_delay(1, urls=2) for _ in range(200)) <= 0.2
    assert max(reconnect_delay(50) for _ in range(200)) > 5
    assert max(reconnect_delay(10**6) for _ in range(200)) <= 20


def test_package_exports_the_function_however_it_was_imported() -> None:
    assert isinstance(distributary.subscribe("odds"), Changes)
    assert callable(distributary.subscribe_sync)
    with pytest.raises(AttributeError):
        distributary.unsubscribe  # noqa: B018


async def test_fields_and_start_are_sent(publisher: TinyPublisher) -> None:
    options: list[Any] = ["price,b.c", ["price", "b.c"]]
    for fields in options:
        async with subscribe("odds", where="a = 1", fields=fields, url=publisher.url) as changes:
            assert changes.channel == "odds?where=a%20%3D%201&fields=price,b.c"
    moments: list[Any] = [
        "2026-01-31",
        datetime(2026, 1, 31, tzinfo=UTC),
        datetime(2026, 1, 31),
        1769817600000,
    ]
    for moment in moments:
        async with subscribe("odds", url=publisher.url, from_position=moment) as changes:
            assert publisher.requests[-1]["data"] == {"from": 1769817600000}
            assert [change.op for change in await changes.take()] == ["snapshot"]
    wrong: list[dict[str, Any]] = [
        {"fields": ""},
        {"fields": []},
        {"fields": "a,"},
        {"from_position": "soon"},
    ]
    for bad in wrong:
        with pytest.raises(BadQuery):
            subscribe("odds", **bad)
