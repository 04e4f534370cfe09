"""The socket.io client that people use, unmodified, under Node."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.integration.socketio_gateway.gateways import gateway, needs_node, node
from tests.support.fake_view import VIEW, FakeTopicWriter, FakeView, until
from tests.support.serving_publisher import serving

from distributary.model.feed import Feed
from distributary.publisher.metrics import describe
from distributary.publisher.websocket.client_publish import ClientPublisher

pytestmark = needs_node


@pytest.mark.parametrize("words", [["--websocket"], []], ids=["websocket", "upgraded"])
async def test_client_gets_the_snapshot_then_changes_until_it_unsubscribes(words: list[str]) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "price": 1}), ("b", {"s": "g"}))
    async with (
        serving(fake_view) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, *words) as client,
    ):
        assert (await client.next("open"))["transport"] == ("websocket" if words else "polling")
        if not words:
            assert (await client.next("upgrade"))["transport"] == "websocket"
        joined = await client.ask("subscribe", {"view": VIEW, "where": "s = 'f'"})
        assert joined["data"]["rows"] == [["a", {"s": "f", "price": 1}]]
        assert (joined["epoch"], joined["offset"]) == (fake_view.epoch, 2)
        fake_view.put(("b", {"s": "f"}))
        result = await client.next("publication")
        assert (result["channel"], result["offset"], result["data"]["op"]) == (joined["channel"], 3, "add")
        fake_view.put(("a", None))
        assert (await client.next("publication"))["data"]["op"] == "remove"
        assert await client.ask("unsubscribe", {"channel": joined["channel"]}) == {}
        await until(lambda: describe(publisher.hub, publisher.stats, "")["subscribers"] == 0)
        fake_view.put(("b", {"s": "f", "price": 2}))
        # Away and back with a position: exactly what was missed.
        position = {"epoch": joined["epoch"], "offset": 4}
        again = await client.ask("subscribe", {"view": VIEW, "where": "s = 'f'", "recover": position})
        assert again["recovered"] is False or [p["offset"] for p in again["publications"]] == [5]
        await client.say("end")
        await until(lambda: not publisher.stats.connections)
        assert one.clients == 0


async def test_client_works_with_long_polling() -> None:
    fake_view = FakeView()
    async with (
        serving(fake_view) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, "--polling") as client,
    ):
        await client.next("connect")
        await client.ask("subscribe", {"channel": VIEW})
        for n in range(20):
            fake_view.put(("a", {"n": n}))
        assert [(await client.next("publication"))["offset"] for _ in range(20)] == list(range(1, 21))


async def test_client_publishes_calls_and_reads_history() -> None:
    fake_view = FakeView()
    taken = FakeTopicWriter()
    client_publisher = ClientPublisher(
        [Feed("moves", "game.moves", publish=True)], fake_view.reader, taken.produce
    )
    async with (
        serving(fake_view, client_publisher=client_publisher, ping_interval=1.0) as publisher,
        gateway([publisher.addresses["websocket"]], ping_interval=1.0) as one,
        node(one.port, "--websocket") as client,
    ):
        await client.ask("subscribe", {"view": VIEW})
        for n in range(3):
            fake_view.put(("a", {"n": n}))
        found = await client.ask("history", {"channel": VIEW, "limit": 2, "reverse": True})
        assert ([p["offset"] for p in found["publications"]], found["offset"]) == ([3, 2], 3)
        found = await client.ask("rpc", {"method": "position", "data": {"view": VIEW}})
        assert found["data"]["position"] == f"{fake_view.epoch}:3"
        assert await client.ask("publish", {"channel": "feed:moves", "data": {"to": "e4"}}) == {}
        assert [json.loads(value or b"") for value in taken.values] == [{"to": "e4"}]
        refused = await client.ask("publish", {"channel": "feed:other", "data": {}})
        assert refused["error"]["code"] == 103
        assert "client" in await client.ask("refresh", {"token": "another"})  # tokens count for nothing here
        pings = publisher.stats.pings
        await until(lambda: publisher.stats.pings >= pings + 2)
        assert publisher.stats.closes == {}
        fake_view.writer.drop_view(VIEW)
        assert await client.next("unsubscribed") == {"channel": VIEW, "code": 2000, "reason": "view deleted"}


async def test_numbers_keep_their_digits() -> None:
    fake_view = FakeView()
    taken = FakeTopicWriter()
    client_publisher = ClientPublisher([Feed("moves", "m", publish=True)], fake_view.reader, taken.produce)
    async with (
        serving(fake_view, client_publisher=client_publisher) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, "--websocket") as client,
    ):
        await client.next("connect")
        # By hand: JavaScript itself would round them.
        data = '{"price":1.50,"id":12345678901234567890123}'
        await client.say(f'raw 20["publish",{{"channel":"feed:moves","data":{data}}}]')
        await until(lambda: taken.records)
        assert taken.values == [data.encode()]


BAD: list[tuple[str, Any, int, str]] = [
    ("subscribe", None, 107, "subscribe takes one object"),
    ("subscribe", [1], 107, "subscribe takes one object"),
    ("subscribe", {}, 107, "a channel or a view"),
    ("subscribe", {"view": VIEW, "wher": "a = 1"}, 107, "did you mean 'where'?"),
    ("subscribe", {"view": VIEW, "where": "a ="}, 107, ""),
    ("subscribe", {"view": VIEW, "keys": "a"}, 107, "keys must be a list of strings"),
    ("subscribe", {"view": VIEW, "recover": {"epoch": "e"}}, 107, "recover must be a position"),
    ("subscribe", {"view": "nothing"}, 102, "nothing"),
    ("subscribe", {"channel": "x" * 40_000}, 107, ""),
    ("unsubscribe", {}, 107, "needs a channel"),
    ("history", {"channel": VIEW}, 103, "subscribe to the channel first"),
    ("rpc", {"method": "nonsense"}, 104, ""),
    ("rpc", {"method": 7}, 107, "method must be a string"),
    ("dance", {}, 104, ""),
]


NO_PACKETS = ("2", "2[]", "2{}", "2[7]", '2["*"]', "x", "51-[", "2" + "[" * 20_000, '2["rpc",NaN]', "9")


async def test_bad_input_gets_an_error() -> None:
    async with (
        serving(FakeView()) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, "--websocket") as client,
    ):
        for event, payload, code, words in BAD:
            error = (await client.ask(event, payload))["error"]
            assert (error["code"], words in error["message"]) == (code, True), (event, payload, error)
        for packet in NO_PACKETS:
            await client.say(f"raw {packet}")
        assert "data" in await client.ask("subscribe", {"view": VIEW}), "it goes on after what is no packet"
        assert "error" in await client.ask("subscribe", {"view": VIEW}), "a channel is held once"
        assert publisher.stats.closes == {}


async def test_too_large_frame_ends_the_connection() -> None:
    async with (
        serving(FakeView()) as publisher,
        gateway([publisher.addresses["websocket"]], max_frame=2048) as one,
        node(one.port, "--websocket") as client,
    ):
        await client.next("connect")
        await client.say(f"rpc {json.dumps({'method': 'x' * 4000})}")
        assert (await client.next("disconnect"))["reason"] == "transport close"


async def test_page_of_another_origin_is_refused() -> None:
    async with (
        serving(FakeView()) as publisher,
        gateway([publisher.addresses["websocket"]]) as one,
        node(one.port, "--polling", "--origin", "https://evil.example.com") as evil,
        node(one.port, "--websocket", "--origin", "https://evil.example.com") as other,
        node(one.port, "--polling", "--origin", "http://localhost:3000") as good,
    ):
        assert await evil.next("connect_error")
        assert await other.next("connect_error")
        await good.next("connect")


async def test_client_that_does_not_authenticate_is_closed() -> None:
    import aiohttp

    async with (
        serving(FakeView()) as publisher,
        gateway([publisher.addresses["websocket"]], auth_timeout=0.2) as one,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"http://127.0.0.1:{one.port}/socket.io/?EIO=4&transport=websocket") as socket,
    ):
        assert (await socket.receive()).data.startswith("0{")
        async with asyncio.timeout(10):
            while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
