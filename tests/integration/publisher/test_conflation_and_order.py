"""Order and conflation on real sockets, and readers that do not read."""

from __future__ import annotations

import asyncio
import socket as sockets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from centrifuge import Client
from tests.integration.publisher.test_clients import Notes, packed
from tests.integration.publisher.test_sse import stream, unread
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.servers import StoreServer
from tests.support.serving_publisher import WAIT, Raw, raw, serving
from tests.support.wire_formats import CODECS

import distributary
from distributary.publisher.codec.codec import Codec
from distributary.publisher.metrics import describe
from distributary.publisher.publisher_server import PublisherServer
from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

both = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)
PACED = {"conflate": "100ms"}


async def subscribed(client: Raw, channel: str = VIEW, **data: Any) -> dict[str, Any]:
    """Subscribe and give the reply."""
    await client.connect()
    request: dict[str, Any] = {"channel": channel} | ({"data": data} if data else {})
    await client.send({"id": 2, "subscribe": request})
    reply = await client.next()
    assert "subscribe" in reply, reply
    return dict(reply["subscribe"])


async def pub(client: Raw) -> dict[str, Any]:
    return dict((await client.next())["push"]["pub"])


@asynccontextmanager
async def stuck(publisher: PublisherServer, **data: Any) -> AsyncIterator[Raw]:
    """A client that subscribes and then does not read."""
    found = sockets.socket()
    found.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    found.setblocking(False)
    await asyncio.get_running_loop().sock_connect(found, ("127.0.0.1", publisher.websocket.port))
    async with raw(publisher, sock=found) as client:
        await subscribed(client, **data)
        client.socket.transport.pause_reading()
        try:
            yield client
        finally:
            client.socket.transport.resume_reading()


def rows(first: int, count: int, keys: int) -> list[tuple[str, dict[str, object] | None]]:
    return [(f"k{n % keys}", {"n": n + 1}) for n in range(first, first + count)]


def left(publisher: PublisherServer) -> tuple[int, ...]:
    message = describe(publisher.hub, publisher.stats, "")
    return tuple(message[name] for name in ("connections", "subscribers", "queries", "kept_rows", "paced"))


@both
async def test_client_gets_the_first_rows(codec: Codec) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}), ("c", {"n": 3}))
    async with serving(fake_view) as publisher:
        async with raw(publisher, codec) as client:
            reply = await subscribed(client, f"{VIEW}?order=n+desc&limit=2")
            assert reply["data"]["rows"] == [["c", {"n": 3}], ["b", {"n": 2}]]
            fake_view.put(("a", {"n": 9}))
            out, in_ = await pub(client), await pub(client)
            assert (out["data"]["op"], out["data"]["key"], out["offset"]) == ("remove", "b", 4)
            assert (in_["data"]["op"], in_["data"]["row"], in_["offset"]) == ("add", {"n": 9}, 4)
            assert in_["data"]["at"] == 0
            fake_view.put(("b", {"n": 1}), ("c", {"n": 10}))
            change = await pub(client)
            assert (change["data"]["op"], change["data"]["at"], change["offset"]) == ("change", 0, 6)
        async with raw(publisher, codec) as client:
            await client.connect()
            resume = {"recover": True, "epoch": fake_view.epoch, "offset": 6}
            await client.send({"id": 2, "subscribe": {"channel": f"{VIEW}?order=n&limit=2", **resume}})
            again = (await client.next())["subscribe"]
            assert not again.get("recovered")
            assert again["data"]["rows"] == [["b", {"n": 1}], ["a", {"n": 9}]]
        await until(lambda: left(publisher) == (0, 0, 0, 0, 0))


@both
async def test_first_rows_and_newest_rows_are_projected(codec: Codec) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1, "m": "x"}), ("b", {"n": 2, "m": "y"}))
    async with serving(fake_view) as publisher:
        async with raw(publisher, codec) as client:
            reply = await subscribed(client, f"{VIEW}?order=n+desc&limit=1&fields=m")
            assert reply["data"]["rows"] == [["b", {"m": "y"}]]
            fake_view.put(("a", {"n": 9, "m": "x"}))
            out, in_ = await pub(client), await pub(client)
            assert (out["data"]["key"], in_["data"]["key"], in_["data"]["row"]) == ("b", "a", {"m": "x"})
        async with raw(publisher, codec) as client:
            await client.connect()
            request = {"channel": f"{VIEW}?fields=m", "data": {"conflate": "50ms"}}
            await client.send({"id": 2, "subscribe": request})
            rows = dict((await client.next())["subscribe"]["data"]["rows"])
            assert rows == {"a": {"m": "x"}, "b": {"m": "y"}}
            fake_view.put(("a", {"n": 10, "m": "z"}))
            message = (await pub(client))["data"]
            assert (message["key"], message["row"]) == ("a", {"m": "z"})


async def test_invalid_order_or_conflation_is_refused() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}))
    async with (
        serving(fake_view, max_materialized_rows=1, max_limit=5) as publisher,
        raw(publisher) as client,
    ):
        await client.connect()
        for id, (channel, data, code, message) in enumerate(
            (
                (f"{VIEW}?order=n+down&limit=1", {}, 107, "character 3 of the order"),
                (f"{VIEW}?order=n&limit=6", {}, 107, "limit is 6, and must be at most 5"),
                (f"{VIEW}?order=n&limit=1", {}, 106, "the query has 2 rows; at most 1"),
                (VIEW, {"conflate": "never"}, 107, "conflate='never'"),
            ),
            2,
        ):
            await client.send({"id": id, "subscribe": {"channel": channel, "data": data}})
            error = (await client.next())["error"]
            assert error["code"] == code
            assert message in error["message"]
        for query, status in (("order=n+down&limit=1", 400), ("conflate=never", 400), ("conflate=1", 429)):
            async with stream(publisher, query) as events:
                assert events.response.status == status
        assert left(publisher) == (1, 0, 0, 0, 0)


async def test_stream_has_order_and_conflation() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}))
    async with (
        serving(fake_view) as publisher,
        stream(publisher, "order=n&limit=1") as top,
        stream(publisher, "conflate=100ms&max_bytes=1m") as conflated,
        stream(publisher, "slow=conflate&max_rate=1000", Accept="application/x-ndjson") as lines,
    ):
        assert (await top.next()).data["rows"] == [["a", {"n": 1}]]
        for events in (top, conflated):
            while (await events.next()).name != "ready":
                pass
        for n in range(3, 30):
            fake_view.put(("a", {"n": n}))
        leave, enter = await top.next(), await top.next()
        assert (leave.data["op"], enter.data["op"], enter.data["key"]) == ("remove", "add", "b")
        rows = {"a": {"n": 1}, "b": {"n": 2}}
        seen = 0
        while rows["a"] != {"n": 29}:
            change = await conflated.next()
            assert (change.name, change.data["op"]) == ("change", "add")
            rows[change.data["key"]] = change.data["row"]
            seen += 1
        assert change.id == f"{fake_view.epoch}:{fake_view.seq}"
        assert seen < 20
        assert lines.response.status == 200


async def test_python_subscriber_has_order_and_conflation() -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}), ("c", {"n": 3}))
    async with serving(fake_view) as publisher:
        url = publisher.addresses["websocket"]
        async with (
            distributary.subscribe(VIEW, order_by="n desc", limit=2, url=url) as top,
            distributary.subscribe(VIEW, order_by="n", limit=2, conflate=0.05, url=url) as slowly,
            distributary.subscribe(VIEW, max_rate=200, url=url) as conflated,
        ):
            for n in range(40):
                fake_view.put(("a", {"n": n}), ("b", {"n": -n}))
            fake_view.put(("c", None), ("d", {"n": 7}))
            for changes, keys in ((top, ["a", "d"]), (slowly, ["b", "d"]), (conflated, ["a", "b", "d"])):
                async with asyncio.timeout(WAIT):
                    while changes.position is None or changes.position.seq < fake_view.seq:
                        for change in await changes.take():
                            assert change.op in ("snapshot", "add", "change", "remove")
                assert (list(changes.rows) if changes is not conflated else sorted(changes.rows)) == keys
                assert changes.rows == {key: fake_view.rows()[key] for key in keys}


@pytest.mark.parametrize("data", [{"slow": "conflate"}, {"conflate": 0.05}])
async def test_conflated_reader_that_stops_gets_the_newest_rows(data: dict[str, Any]) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    async with serving(fake_view, queue_bytes=200_000) as publisher:
        async with stuck(publisher, **data) as client, raw(publisher) as quick:
            await subscribed(quick)
            transport = next(iter(publisher.websocket.connections))._transport  # the one that is stuck
            for n in range(1, 400):
                fake_view.put(("a", {"n": n, "filler": "x" * 20_000}))
                assert (await pub(quick))["offset"] == fake_view.seq
                assert transport.get_write_buffer_size() < 100_000
            assert publisher.stats.slow == 0
            client.socket.transport.resume_reading()
            result = 0
            while (await pub(client))["offset"] < fake_view.seq:
                result += 1
            assert result < 390
            message = describe(publisher.hub, publisher.stats, "")
            ((_, counts),) = message["paces"].items()
            assert result + counts["conflated"] + counts["dropped"] in (398, 399)
            async with aiohttp.ClientSession() as session:
                text = await (await session.get(publisher.addresses["http"] + "/metrics")).text()
            assert f'conflated_total{{process="{message["pid"]}"}} {message["conflated"]}' in text
        await until(lambda: left(publisher) == (0, 0, 0, 0, 0))


async def test_conflated_stream_that_is_not_read_gets_the_newest_rows() -> None:
    fake_view = FakeView()
    async with serving(fake_view, queue_bytes=200_000) as publisher:
        async with unread(publisher, "conflate=20ms") as slow:
            for n in range(300):
                fake_view.put(("a", {"n": n, "filler": "x" * 50_000}))
                await asyncio.sleep(0)
            await until(lambda: publisher.hub.followers[VIEW].seq == fake_view.seq)
            assert publisher.stats.slow == 0
            read = b""
            async with asyncio.timeout(WAIT):
                while b'"n":299,' not in read[-120_000:]:
                    read += await asyncio.get_running_loop().sock_recv(slow, 65_536)
            assert len(read) < 250 * 50_000
        await until(lambda: left(publisher) == (0, 0, 0, 0, 0))


@pytest.mark.parametrize("protobuf", [False, True], ids=["json", "protobuf"])
async def test_javascript_sdk_has_order_and_conflation(protobuf: bool) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}), ("b", {"n": 2}))
    async with serving(fake_view) as publisher:
        client = Client(publisher.addresses["websocket"], min_reconnect_delay=0.01, use_protobuf=protobuf)
        top, conflated = Notes(), Notes()
        await client.connect()
        await client.new_subscription(f"{VIEW}?order=n&limit=1", top).subscribe()
        data = packed({"conflate": "20ms"}, protobuf)
        await client.new_subscription(VIEW, conflated, data=data).subscribe()
        await until(lambda: top.subscribed and conflated.subscribed)
        fake_view.put(("b", {"n": 0}), ("b", {"n": 5}))
        await until(lambda: [message["key"] for _, message in top.publications] == ["a", "b", "b", "a"])
        assert [offset for offset, _ in top.publications] == [3, 3, 4, 4]
        await until(lambda: conflated.publications and conflated.publications[-1][0] == 4)
        await client.disconnect()
        for n in range(5):
            fake_view.put(("a", {"n": n}), ("c", {"n": n}))
        await client.connect()
        await until(lambda: len(top.subscribed) == 2 and len(conflated.subscribed) == 2)
        assert (top.subscribed[1].recovered, top.states[1]["rows"]) == (False, [["a", {"n": 4}]])
        assert conflated.subscribed[1].recovered
        await until(lambda: conflated.publications[-1][0] == fake_view.seq)
        current = {
            key: row
            for _, message in conflated.publications
            for key, row in [(message["key"], message["row"])]
        }
        assert current == fake_view.rows()
        await client.disconnect()


async def test_readers_that_never_read_do_not_block_others() -> None:
    """Some are conflated and some are not; a plain reader beside them gets every change, in order."""
    fake_view = FakeView()
    fake_view.put(("a", {"n": 0}))
    async with serving(fake_view, queue_bytes=200_000) as publisher, raw(publisher) as quick:
        await subscribed(quick)
        async with AsyncExitStack() as exits:
            for data in [PACED] * 5 + [{}] * 5:
                await exits.enter_async_context(stuck(publisher, **data))
            sent = 0
            async with asyncio.timeout(3 * WAIT):
                while publisher.stats.slow < 5:
                    for _ in range(10):
                        fake_view.put((f"k{sent % 5}", {"n": sent, "filler": "x" * 60_000}))
                        sent += 1
                    for n in range(sent - 10, sent):
                        assert (await pub(quick))["offset"] == n + 2
            assert publisher.stats.closes == {3008: 5}
            assert left(publisher) == (6, 6, 1, 6, 5)
        await until(lambda: left(publisher) == (1, 1, 1, 0, 0))


async def test_two_thousand_changes_per_second_are_conflated(store: StoreServer) -> None:
    """One option on subscribe, on a real store; subscribers without it get every change."""
    fake_view = FakeView(writer=RedisWriter(store.url))
    reader = RedisReader(store.url)
    keys, changes, seconds = 40, 2_000, 4.5
    fake_view.put(*rows(0, keys, keys))
    async with serving(fake_view, reader=reader) as publisher:
        url = publisher.addresses["websocket"]
        async with (
            distributary.subscribe(VIEW, conflate="2s", url=url) as conflated,
            distributary.subscribe(VIEW, url=url) as plain,
        ):
            got: list[tuple[float, str]] = []
            every = 0

            async def follow() -> None:
                async for change in conflated:
                    if change.key is not None:
                        got.append((time.monotonic(), change.key))

            async def count() -> None:
                nonlocal every
                while True:
                    every += sum(change.key is not None for change in await plain.take())

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(follow()), group.create_task(count())]
                began, sent = time.monotonic(), 0

                def write(count: int) -> None:
                    nonlocal sent
                    fake_view.put(*rows(sent, count, keys))
                    sent += count

                while (now := time.monotonic() - began) < seconds:
                    due = int(now * changes) - sent
                    if due > 0:
                        await asyncio.to_thread(write, min(due, 500))
                    else:
                        await asyncio.sleep(0.005)
                await until(lambda: every == sent)
                await until(lambda: conflated.rows == plain.rows and conflated.position == plain.position)
                for task in tasks:
                    task.cancel()
            message = describe(publisher.hub, publisher.stats, "")
        times: dict[str, float] = {}
        for at, key in got:
            assert at - times.get(key, 0.0) > 1.7, "sooner than was asked for"
            times[key] = at
        assert plain.rows == fake_view.rows()
        assert len(got) <= 5 * keys
        assert message["conflated"] == sent - len(got)
        assert sent > seconds * changes / 4, "the machine is too busy to show anything"
    await reader.close()
