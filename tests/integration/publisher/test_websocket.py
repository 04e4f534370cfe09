"""WebSocket on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
import websockets
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.serving_publisher import WAIT, Raw, raw, serving
from tests.support.wire_formats import CODECS

from distributary.errors import PortTaken
from distributary.model.query import Query
from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.protobuf_codec import PROTOBUF
from distributary.publisher.codec.publication import Publication
from distributary.publisher.metrics import describe
from distributary.publisher.publisher_server import PublisherServer
from distributary.publisher.websocket.channel_sink import WebSocketEncoder


def counts(publisher: PublisherServer) -> tuple[int, int, int, int]:
    message = describe(publisher.hub, publisher.stats, "")
    return message["connections"], message["queries"], message["channels"], message["subscribers"]


both = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)


@both
async def test_client_subscribes_follows_and_leaves(codec: Codec) -> None:
    fake_view = FakeView()
    fake_view.put(("a", {"n": 1}))
    async with serving(fake_view) as publisher:
        async with raw(publisher, codec) as client:
            await client.send({"id": 1, "connect": {}}, {"id": 2, "subscribe": {"channel": VIEW, "flag": 1}})
            hello, reply = await client.next(), await client.next()
            assert hello["connect"]["pong"]
            assert reply == {
                "id": 2,
                "subscribe": {
                    "recoverable": True,
                    "positioned": True,
                    "epoch": fake_view.epoch,
                    "offset": 1,
                    "data": {"op": "snapshot", "rows": [["a", {"n": 1}]], "stale": False, "tier": "snapshot"},
                },
            }
            fake_view.time = 5
            fake_view.put(("a", {"n": 2}))
            assert await client.next() == {
                "push": {
                    "channel": VIEW,
                    "pub": {
                        "data": {"op": "change", "key": "a", "time": 5, "changed": {"n": 2}},
                        "offset": 2,
                    },
                }
            }
            assert counts(publisher) == (1, 1, 1, 1)
            await client.send({"id": 3, "unsubscribe": {"channel": VIEW}})
            assert await client.next() == {"id": 3, "unsubscribe": {}}
            assert counts(publisher) == (1, 0, 0, 0)
            await until(lambda: not fake_view.store.views[VIEW].subscriptions)
        await until(lambda: counts(publisher) == (0, 0, 0, 0))


async def test_change_is_encoded_once_per_name_and_format(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_view = FakeView()
    encoded: list[str] = []
    encode = WebSocketEncoder.encode

    def counted(outlet: WebSocketEncoder, epoch: str, pubs: Sequence[Publication]) -> bytes:
        encoded.append(outlet.key)
        return encode(outlet, epoch, pubs)

    monkeypatch.setattr(WebSocketEncoder, "encode", counted)
    async with serving(fake_view) as publisher, AsyncExitStack() as exits:
        clients = [
            await exits.enter_async_context(raw(publisher, codec)) for codec in (*CODECS, *CODECS, *CODECS)
        ]
        for client in clients:
            await client.connect()
            await client.send({"id": 2, "subscribe": {"channel": VIEW}})
            assert "subscribe" in await client.next()
        assert counts(publisher) == (6, 1, 2, 6)
        fake_view.put(("a", {"n": 1}))
        pushed = [await client.next() for client in clients]
        assert all(one == pushed[0] for one in pushed)
        assert sorted(encoded) == sorted(codec.key + VIEW for codec in CODECS)


@both
async def test_messages_are_compressed(codec: Codec) -> None:
    fake_view = FakeView()
    async with serving(fake_view, compression=True) as publisher, AsyncExitStack() as exits:
        squeezed = await exits.enter_async_context(raw(publisher, codec))
        whole = await exits.enter_async_context(raw(publisher, codec, compression=None))
        assert squeezed.socket.response is not None
        assert "permessage-deflate" in squeezed.socket.response.headers["Sec-WebSocket-Extensions"]
        for client in (squeezed, whole):
            await client.connect()
            await client.send({"id": 2, "subscribe": {"channel": VIEW}})
            await client.next()
        for n in range(3):
            fake_view.put(("a", {"n": n, "filler": "x" * 5_000}))
            assert await squeezed.next() == await whole.next()
        assert counts(publisher)[2] == 2
        before = publisher.stats.bytes
        fake_view.put(("a", {"n": 9, "filler": "y" * 5_000}))
        assert await squeezed.next() == await whole.next()
        assert publisher.stats.bytes - before < 6_000  # one of the two was small
        await squeezed.send({"id": 3, "unsubscribe": {"channel": "x" * 5_000}})
        assert await squeezed.next() == {"id": 3, "unsubscribe": {}}
        await squeezed.send({"id": 4, "unsubscribe": {"channel": "x" * 70_000}})
        assert (await squeezed.closed())[0] == 1009


async def test_compression_is_off_unless_it_is_set() -> None:
    async with serving(FakeView()) as publisher, raw(publisher) as client:
        assert client.socket.response is not None
        assert "Sec-WebSocket-Extensions" not in client.socket.response.headers


async def test_url_requests_protobuf() -> None:
    async with serving(FakeView()) as publisher:
        url = publisher.addresses["websocket"] + "?format=protobuf"
        async with websockets.connect(url, proxy=None) as socket:
            await Raw(socket, PROTOBUF).connect()


async def test_numbers_keep_their_text_and_rows_their_lines() -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        await client.next()
        build = fake_view.store.views[VIEW].builds["b1"]
        fake_view.put(("a", {"n": 1}))
        await client.next()
        exact = b'{"n": 12345678901234567890.10,\n "m":\r\n 1.50}'
        build.rows["a"] = build.rows["a"]._replace(json=exact)
        await client.send(
            {"id": 3, "unsubscribe": {"channel": VIEW}}, {"id": 4, "subscribe": {"channel": VIEW}}
        )
        await client.next()
        text = str(await client.socket.recv())
        assert "12345678901234567890.10" in text
        assert "1.50" in text
        assert len(text.split("\n")) == 1


@both
async def test_invalid_subscribes_get_errors(codec: Codec) -> None:
    fake_view = FakeView()
    async with serving(fake_view, max_channels=2) as publisher, raw(publisher, codec) as client:
        await client.connect()
        request = [
            "nothing",
            "odds?where=x",
            "odds?nonsense=1",
            "q:odds:ffff",
            "odds",
            "odds",
            "odds?keys=a",
            "odds?keys=b",
        ]
        got: list[int] = []
        for n, channel in enumerate(request, 2):
            await client.send({"id": n, "subscribe": {"channel": channel}})
            reply = await client.next()
            assert reply["id"] == n
            got.append(reply.get("error", {}).get("code", 0))
        assert got == [102, 107, 107, 102, 0, 105, 0, 106]


async def test_view_being_built_is_a_temporary_error() -> None:
    fake_view = FakeView(live=False)
    async with serving(fake_view) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        error = (await client.next())["error"]
        assert (error["code"], error["temporary"]) == (1100, True)


@both
async def test_begun_subscription_gets_pages(codec: Codec) -> None:
    fake_view = FakeView()
    for n in range(40):
        fake_view.put((f"k{n:02}", {"s": "f", "filler": "x" * 5_000}))
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription="G", ttl_ms=60_000, begun=False
    )
    async with serving(fake_view) as publisher, raw(publisher, codec) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": query.channel, "data": {"subscription": "G"}}})
        reply = (await client.next())["subscribe"]
        place = (reply["data"], reply.get("offset", 0), reply["epoch"])
        assert place == ({"op": "waiting"}, 0, fake_view.epoch)
        await fake_view.reader.begin(VIEW, "G", 60_000)
        rows: list[str] = []
        pages = 0
        while True:
            pub = (await client.next())["push"]["pub"]
            if pub["data"]["op"] == "ready":
                break
            assert "offset" not in pub
            rows += [key for key, _ in pub["data"]["rows"]]
            pages += 1
            last = pub["data"]
        assert sorted(rows) == sorted(fake_view.rows())
        assert pages > 1
        assert "more" not in last
        ready = {"op": "ready", "position": f"{fake_view.epoch}:40", "tier": "snapshot"}
        assert pub == {"data": ready, "offset": 40}
        fake_view.put(("k00", {"s": "g"}))
        assert (await client.next())["push"]["pub"]["data"]["op"] == "remove"


@both
async def test_two_connections_share_a_subscription(codec: Codec) -> None:
    """Each gets the state and every change of its own; one that leaves does not end the other's."""
    fake_view = FakeView()
    fake_view.put(("a", {"s": "f", "n": 0}))
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription="G", ttl_ms=60_000, begun=False
    )
    request = {"id": 2, "subscribe": {"channel": query.channel, "data": {"subscription": "G"}}}
    async with serving(fake_view) as publisher, raw(publisher, codec) as second:
        async with raw(publisher, codec) as first:
            for client in (first, second):
                await client.connect()
                await client.send(request)
                assert (await client.next())["subscribe"]["data"] == {"op": "waiting"}
            await second.send({**request, "id": 3})
            assert (await second.next())["error"]["code"] == 105, "twice on one connection"
            await fake_view.reader.begin(VIEW, "G", 60_000)
            for client in (first, second):
                pushed = [(await client.next())["push"]["pub"]["data"] for _ in range(2)]
                assert pushed[0]["rows"] == [["a", {"s": "f", "n": 0}]]
                assert pushed[1]["op"] == "ready"
            fake_view.put(("a", {"s": "f", "n": 1}))
            for client in (first, second):
                assert (await client.next())["push"]["pub"]["data"]["changed"]["n"] == 1
            await first.send({"id": 4, "unsubscribe": {"channel": query.channel}})
            assert "unsubscribe" in await first.next()
        await until(lambda: publisher.stats.connections == 1)
        fake_view.put(("a", {"s": "f", "n": 2}))
        assert (await second.next())["push"]["pub"]["data"]["changed"]["n"] == 2
        assert await fake_view.reader.subscription(VIEW, "G") is not None


@both
async def test_subscription_ended_elsewhere_ends_at_once(codec: Codec) -> None:
    fake_view = FakeView()
    query = Query.parse(VIEW, "s = 'f'")
    await fake_view.reader.register(
        VIEW, query_id=query.id, text=query.text, subscription="G", ttl_ms=60_000, begun=True
    )
    request = {"id": 2, "subscribe": {"channel": query.channel, "data": {"subscription": "G"}}}
    async with (
        serving(fake_view) as publisher,
        serving(fake_view) as other,
        raw(publisher, codec) as first,
        raw(other, codec) as second,
    ):
        for client in (first, second):
            await client.connect()
            await client.send(request)
            assert (await client.next())["subscribe"]["data"]["op"] == "snapshot"
        await first.send({"id": 4, "unsubscribe": {"channel": query.channel}})
        assert "unsubscribe" in await first.next()
        result = (await second.next())["push"]["unsubscribe"]
        assert (result["code"], result["reason"]) == (2002, "subscription ended")
        await until(lambda: not other.hub.followers[VIEW].subscriptions)


@both
async def test_client_recovers_and_reads_history(codec: Codec) -> None:
    fake_view = FakeView(log_length=3)
    async with serving(fake_view) as publisher, raw(publisher, codec) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        await client.next()
        for n in range(8):
            fake_view.put(("a", {"n": n}))
            assert (await client.next())["push"]["pub"]["offset"] == n + 1
        since = {"offset": 6, "epoch": fake_view.epoch}
        await client.send({"id": 3, "history": {"channel": VIEW, "limit": 10, "since": since}})
        found = (await client.next())["history"]
        assert [pub["offset"] for pub in found["publications"]] == [7, 8]
        assert (found["offset"], found["epoch"]) == (8, fake_view.epoch)
        back = {"channel": VIEW, "limit": 2, "reverse": True}
        for id, more, offsets in ((20, {}, [8, 7]), (21, {"since": since | {"offset": 8}}, [7, 6])):
            await client.send({"id": id, "history": back | more})
            found = (await client.next())["history"]
            assert [pub["offset"] for pub in found["publications"]] == offsets
        await client.send({"id": 22, "history": {"channel": VIEW}})
        assert (await client.next())["history"].get("publications", []) == []
        old = {"offset": 1, "epoch": fake_view.epoch}
        await client.send({"id": 4, "history": {"channel": VIEW, "limit": 10, "since": old}})
        assert (await client.next())["error"]["code"] == 112
        await client.send({"id": 5, "unsubscribe": {"channel": VIEW}})
        await client.next()
        again = {"channel": VIEW, "recover": True, "flag": 3} | old
        await client.send({"id": 6, "subscribe": again})
        assert (await client.next())["error"]["code"] == 112
        await client.send({"id": 7, "subscribe": again | {"flag": 1}})
        reply = (await client.next())["subscribe"]
        assert (reply["was_recovering"], reply.get("recovered", False)) == (True, False)
        assert reply["data"]["op"] == "snapshot"


async def test_message_may_have_several_frames() -> None:
    async with serving(FakeView(), max_frame=1024) as publisher:
        async with raw(publisher) as client:
            await client.socket.send(['{"id":1,', '"connect":', "{}}"])
            assert "connect" in await client.next()
        async with raw(publisher) as client:
            await client.socket.send(["x" * 1000] * 5)
            assert (await client.closed())[0] == 1009


@both
async def test_connection_without_pongs_is_closed(codec: Codec) -> None:
    fake_view = FakeView()
    async with serving(fake_view, ping_interval=0.2) as publisher, raw(publisher, codec) as client:
        await client.connect()
        pings = [await client.socket.recv(decode=False) for _ in range(3) if await pong(client)]
        assert pings == [codec.ping] * 3
        assert await client.closed() == (3012, "no pong")


async def pong(client: Raw) -> bool:
    await client.send({})
    return True


async def test_shutdown_tells_clients_to_reconnect() -> None:
    async with serving(FakeView()) as publisher, raw(publisher) as client:
        await client.connect()
        stopping = asyncio.create_task(publisher.websocket.stop())
        assert await client.closed() == (3001, "shutdown")
        await stopping


async def test_origins_are_checked() -> None:
    async with serving(FakeView(), origins=("https://app.example.com",)) as publisher:
        for origin in (
            "https://app.example.com",
            f"http://127.0.0.1:{publisher.http.port}",
            "http://localhost:9",
        ):
            async with raw(publisher, origin=origin) as client:
                await client.connect()
        for origin in ("https://evil.example.com", "null", "http://127.0.0.1.evil.example"):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with raw(publisher, origin=origin):
                    pass
            assert refused.value.response.status_code == 403


async def test_other_paths_are_refused() -> None:
    async with serving(FakeView()) as publisher:
        url = publisher.addresses["websocket"]
        for where in (url + "x", url.replace("websocket", "other")):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with websockets.connect(where, proxy=None):
                    pass
            assert refused.value.response.status_code == 404


async def test_taken_port_raises() -> None:
    async with serving(FakeView()) as publisher:
        taken = publisher.websocket.port
        other = PublisherServer(FakeView().reader, publisher.websocket.settings, ttl=60)
        with pytest.raises(PortTaken, match=rf"127.0.0.1:{taken}.*publisher.port"):
            await other.start(port=taken, http_port=0)
        with pytest.raises(PortTaken, match=r"publisher.http_port"):
            await other.start(port=0, http_port=publisher.http.port)
        await other.hub.close()


async def test_reader_that_stops_is_closed_and_does_not_block_others() -> None:
    fake_view = FakeView()
    async with serving(fake_view, queue_bytes=65_536) as publisher:
        slow = sockets.socket()
        slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        slow.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(slow, ("127.0.0.1", publisher.websocket.port))
        async with raw(publisher, sock=slow) as stuck, raw(publisher) as quick:
            for client in (stuck, quick):
                await client.connect()
                await client.send({"id": 2, "subscribe": {"channel": VIEW}})
                await client.next()
            stuck.socket.transport.pause_reading()
            got = 0

            async def read() -> None:
                nonlocal got
                while True:
                    await quick.next()
                    got += 1

            reading = asyncio.create_task(read())
            sent = 0
            async with asyncio.timeout(WAIT):
                while not publisher.stats.slow:
                    fake_view.put(("a", {"filler": "x" * 20_000, "n": sent}))
                    sent += 1
                    await until(lambda wanted=sent: got == wanted)  # type: ignore[misc]
            assert counts(publisher) == (1, 1, 1, 1)
            assert publisher.stats.closes == {3008: 1}
            stuck.socket.transport.resume_reading()
            assert await stuck.closed() == (3008, "slow")
            reading.cancel()


async def test_state_larger_than_the_queue_is_not_slowness() -> None:
    fake_view = FakeView()
    for n in range(50):
        fake_view.put((f"k{n}", {"filler": "x" * 20_000}))
    async with serving(fake_view, queue_bytes=65_536) as publisher, raw(publisher) as client:
        await client.connect()
        for n, channel in enumerate(("odds", "odds?", "odds?where="), 2):
            await client.send({"id": n, "subscribe": {"channel": channel}})
        for _ in range(3):
            reply = await client.next()
            assert len(reply["subscribe"]["data"]["rows"]) == 50
        fake_view.put(("k0", {"n": 1}))
        assert {(await client.next())["push"]["channel"] for _ in range(3)} == {
            "odds",
            "odds?",
            "odds?where=",
        }
        assert publisher.stats.slow == 0
        assert counts(publisher) == (1, 1, 3, 3)


async def test_lost_connections_leave_nothing_behind() -> None:
    fake_view = FakeView()
    async with serving(fake_view) as publisher:
        for _ in range(3):
            async with raw(publisher) as client:
                await client.connect()
                await client.send(
                    *({"id": n + 2, "subscribe": {"channel": f"odds?keys=k{n}"}} for n in range(20))
                )
                for _ in range(20):
                    assert "subscribe" in await client.next()
                client.socket.transport.abort()
        await until(lambda: counts(publisher) == (0, 0, 0, 0))
        assert (
            len(fake_view.store.views[VIEW].subscriptions) == 60
        )  # they lapse, so that clients may come back
        assert json.dumps(describe(publisher.hub, publisher.stats, ""))
