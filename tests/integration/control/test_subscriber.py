"""The Python subscriber and the two-step flow against the real publisher, store and reducer (no Spark)."""

from __future__ import annotations

import asyncio
import signal
from decimal import Decimal

import aiohttp
import pytest
from tests.integration.control.conftest import Start
from tests.integration.control.test_process import ODDS
from tests.support.clock import LIMIT
from tests.support.reducer_harness import ReducerHarness
from tests.support.servers import StoreServer

from distributary.control.api_client import ControlClient
from distributary.errors import SubscribeError
from distributary.subscriber.async_subscriber import subscribe
from distributary.subscriber.subscribed_change import SubscribedChange
from distributary.subscriber.subscription_protocol import Deliver, Send, SubscriberSession


def live(store: StoreServer) -> ReducerHarness:
    from distributary.store.redis_writer import RedisWriter

    writer = RedisWriter(store.url)
    writer.define("odds", ODDS.build, ODDS.text)
    writer.close()
    folding = ReducerHarness(store.url, ODDS)
    folding.fold(a={"sport": "football", "price": 1.5}, b={"sport": "tennis", "price": 2})
    folding.go_live()
    return folding


async def test_rows_changes_and_exact_numbers(start: Start, store: StoreServer) -> None:
    folding = live(store)
    url = start("distributary.publisher").addresses["websocket"]
    async with asyncio.timeout(20 * LIMIT), subscribe("odds", "sport = 'football'", url=url) as changes:
        assert changes.rows == {"a": {"sport": "football", "price": Decimal("1.5")}}
        await anext(changes)
        await asyncio.to_thread(folding.fold, b={"sport": "football"}, a={"price": 2**63 + 1})
        added, changed = await anext(changes), await anext(changes)
        assert (added.op, added.key, added.row) == ("add", "b", {"sport": "football", "price": 2})
        assert (changed.op, changed.changed) == ("change", {"price": 2**63 + 1})
        await asyncio.to_thread(folding.fold, a={"sport": "tennis"})
        assert (await anext(changes)).op == "remove"
        assert set(changes.rows) == {"b"}


async def test_killed_publisher_leaves_no_gap(start: Start, store: StoreServer) -> None:
    folding = live(store)
    publisher = start("distributary.publisher")
    async with (
        asyncio.timeout(40 * LIMIT),
        subscribe("odds", url=publisher.addresses["websocket"], timeout=20 * LIMIT) as changes,
    ):
        await anext(changes)
        await asyncio.to_thread(folding.fold, c={"n": 1})
        assert (await anext(changes)).key == "c"
        await asyncio.to_thread(publisher.stop, signal.SIGKILL)
        await asyncio.to_thread(folding.fold, d={"n": 1}, e={"n": 2})
        await asyncio.to_thread(start, "distributary.publisher")
        await asyncio.to_thread(folding.fold, f={"n": 3})
        found = [await anext(changes) for _ in range(3)]
        assert [(change.op, change.key) for change in found] == [("add", "d"), ("add", "e"), ("add", "f")]


async def test_restarted_store_gives_a_snapshot(start: Start, store: StoreServer) -> None:
    folding = live(store)
    url = start("distributary.publisher").addresses["websocket"]
    async with asyncio.timeout(40 * LIMIT), subscribe("odds", url=url, timeout=20 * LIMIT) as changes:
        epoch = (await anext(changes)).position
        await asyncio.to_thread(store.stop)
        await asyncio.to_thread(store.start)
        await asyncio.to_thread(folding.reopen)
        await asyncio.to_thread(folding.fold, c={"n": 1})
        while "c" not in changes.rows:
            change = await anext(changes)
        assert change.position is not None
        assert epoch is not None
        assert change.position.epoch != epoch.epoch
        assert set(changes.rows) == {"a", "b", "c"}


async def test_refused_subscriber_does_not_reconnect(start: Start, store: StoreServer) -> None:
    live(store)
    url = start("distributary.publisher").addresses["websocket"]
    async with asyncio.timeout(10 * LIMIT):
        with pytest.raises(SubscribeError, match="unknown channel"):
            async with subscribe("ods", url=url):
                pytest.fail("entered")


async def test_subscribe_then_begin(start: Start, store: StoreServer) -> None:
    folding = live(store)
    start("distributary.publisher")
    api = ControlClient((await asyncio.to_thread(start, "distributary.control")).addresses["http"])
    made = await asyncio.to_thread(
        api.call, "POST", "/v1/subscriptions", {"view": "odds", "where": "sport = 'tennis'"}
    )
    session = SubscriberSession(made["channel"], subscription=made["id"])
    found: list[SubscribedChange] = []
    async with (
        asyncio.timeout(20 * LIMIT),
        aiohttp.ClientSession() as http,
        http.ws_connect(made["publisher"]) as ws,
    ):

        async def play() -> None:
            for action in session.received((await ws.receive()).data):
                if isinstance(action, Deliver):
                    found.append(action.change)
                else:
                    assert isinstance(action, Send)
                    await ws.send_str(action.text)

        for action in session.opened():
            assert isinstance(action, Send)
            await ws.send_str(action.text)
        while not session.joined:
            await play()
        assert found == [], "nothing comes before it is begun"
        await asyncio.to_thread(api.call, "POST", f"/v1/subscriptions/{made['id']}/begin")
        while not found:
            await play()
        assert (found[0].op, set(found[0].rows)) == ("snapshot", {"b"})
        await asyncio.to_thread(folding.fold, b={"price": 3})
        while len(found) < 2:
            await play()
        assert found[1].changed == {"price": 3}
