"""WebSocket on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket as sockets

import pytest
import websockets
from tests.integration.publish.serving import WAIT, raw, serving
from tests.unit.publish.world import VIEW, World, until

from distributary.errors import PortTaken
from distributary.model.query import Query
from distributary.publish.figures import describe
from distributary.publish.server import Publisher


def counts(publisher: Publisher) -> tuple[int, int, int, int]:
    said = describe(publisher.hub, publisher.stats, "")
    return said["connections"], said["queries"], said["channels"], said["subscribers"]


async def test_subscribe_follow_and_leave() -> None:
    world = World()
    world.put(("a", {"n": 1}))
    async with serving(world) as publisher:
        async with raw(publisher) as client:
            await client.send({"id": 1, "connect": {}}, {"id": 2, "subscribe": {"channel": VIEW, "flag": 1}})
            hello, reply = await client.next(), await client.next()
            assert hello["connect"]["pong"]
            assert reply == {
                "id": 2,
                "subscribe": {
                    "recoverable": True,
                    "positioned": True,
                    "epoch": world.epoch,
                    "offset": 1,
                    "data": {"op": "snapshot", "rows": [["a", {"n": 1}]], "stale": False},
                },
            }
            world.time = 5
            world.put(("a", {"n": 2}))
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
            await until(lambda: not world.store.all[VIEW].subscriptions)
        await until(lambda: counts(publisher) == (0, 0, 0, 0))


async def test_numbers_keep_their_text_and_rows_their_lines() -> None:
    world = World()
    async with serving(world) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        await client.next()
        build = world.store.all[VIEW].builds["b1"]
        world.put(("a", {"n": 1}))
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


async def test_errors() -> None:
    world = World()
    async with serving(world, max_channels=2) as publisher, raw(publisher) as client:
        await client.connect()
        asked = [
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
        for n, channel in enumerate(asked, 2):
            await client.send({"id": n, "subscribe": {"channel": channel}})
            reply = await client.next()
            assert reply["id"] == n
            got.append(reply.get("error", {}).get("code", 0))
        assert got == [102, 107, 107, 102, 0, 105, 0, 106]


async def test_a_view_being_built_is_a_temporary_error() -> None:
    world = World(live=False)
    async with serving(world) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        error = (await client.next())["error"]
        assert (error["code"], error["temporary"]) == (1100, True)


async def test_two_steps_with_pages() -> None:
    world = World()
    for n in range(40):
        world.put((f"k{n:02}", {"s": "f", "filler": "x" * 5_000}))
    query = Query.parse(VIEW, "s = 'f'")
    await world.reader.register(VIEW, query.id, query.text, "G", 60_000, False)
    async with serving(world) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": query.channel, "data": {"subscription": "G"}}})
        reply = (await client.next())["subscribe"]
        assert (reply["data"], reply["offset"], reply["epoch"]) == ({"op": "waiting"}, 0, world.epoch)
        await world.reader.begin(VIEW, "G", 60_000)
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
        assert sorted(rows) == sorted(world.rows())
        assert pages > 1
        assert "more" not in last
        assert pub == {"data": {"op": "ready", "position": f"{world.epoch}:40"}, "offset": 40}
        world.put(("k00", {"s": "g"}))
        assert (await client.next())["push"]["pub"]["data"]["op"] == "remove"


async def test_recover_flag_and_history() -> None:
    world = World(log_keep=3)
    async with serving(world) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": VIEW}})
        await client.next()
        for n in range(8):
            world.put(("a", {"n": n}))
            assert (await client.next())["push"]["pub"]["offset"] == n + 1
        since = {"offset": 6, "epoch": world.epoch}
        await client.send({"id": 3, "history": {"channel": VIEW, "limit": 10, "since": since}})
        found = (await client.next())["history"]
        assert [pub["offset"] for pub in found["publications"]] == [7, 8]
        assert (found["offset"], found["epoch"]) == (8, world.epoch)
        old = {"offset": 1, "epoch": world.epoch}
        await client.send({"id": 4, "history": {"channel": VIEW, "limit": 10, "since": old}})
        assert (await client.next())["error"]["code"] == 112
        await client.send({"id": 5, "unsubscribe": {"channel": VIEW}})
        await client.next()
        again = {"channel": VIEW, "recover": True, "flag": 3} | old
        await client.send({"id": 6, "subscribe": again})
        assert (await client.next())["error"]["code"] == 112
        await client.send({"id": 7, "subscribe": again | {"flag": 1}})
        reply = (await client.next())["subscribe"]
        assert (reply["was_recovering"], reply["recovered"]) == (True, False)
        assert reply["data"]["op"] == "snapshot"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("nonsense", 3501),
        (b"{}", 3501),
        ('{"id":1,"subscribe":{"channel":"odds"}}', 3501),
        ("x" * 70_000, 1009),
    ],
)
async def test_bad_frames_close(frame: str | bytes, code: int) -> None:
    async with serving(World()) as publisher, raw(publisher) as client:
        await client.socket.send(frame)
        assert (await client.closed())[0] == code


async def test_a_message_in_pieces() -> None:
    async with serving(World(), max_frame=1024) as publisher:
        async with raw(publisher) as client:
            await client.socket.send(['{"id":1,', '"connect":', "{}}"])
            assert "connect" in await client.next()
        async with raw(publisher) as client:
            await client.socket.send(["x" * 1000] * 5)
            assert (await client.closed())[0] == 1009


async def test_silent_connections_are_closed() -> None:
    async with serving(World(), auth_timeout=0.05) as publisher, raw(publisher) as client:
        assert await client.closed() == (3502, "stale")


async def test_no_pong_closes() -> None:
    async with serving(World(), ping=1.0) as publisher, raw(publisher) as client:
        await client.connect()
        assert await client.closed() == (3012, "no pong")


async def test_shutdown_tells_clients_to_come_back() -> None:
    async with serving(World()) as publisher, raw(publisher) as client:
        await client.connect()
        stopping = asyncio.create_task(publisher.websocket.stop())
        assert await client.closed() == (3001, "shutdown")
        await stopping


async def test_origins() -> None:
    async with serving(World(), origins=("https://app.example.com",)) as publisher:
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


async def test_other_addresses_and_protocols_are_refused() -> None:
    async with serving(World()) as publisher:
        url = publisher.addresses["websocket"]
        for where, more, status in (
            (url + "x", {}, 404),
            (url, {"subprotocols": ["centrifuge-protobuf"]}, 400),
        ):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with websockets.connect(where, proxy=None, **more):  # type: ignore[arg-type]
                    pass
            assert refused.value.response.status_code == status


async def test_a_taken_port_is_a_clear_error() -> None:
    async with serving(World()) as publisher:
        taken = publisher.websocket.port
        other = Publisher(World().reader, publisher.websocket.settings, ttl=60)
        with pytest.raises(PortTaken, match=rf"127.0.0.1:{taken}.*publisher.port"):
            await other.start(port=taken, http_port=0)
        with pytest.raises(PortTaken, match=r"publisher.http_port"):
            await other.start(port=0, http_port=publisher.http.port)
        await other.hub.close()


async def test_a_reader_that_stops_is_closed_and_does_not_hold_the_others() -> None:
    world = World()
    async with serving(world, queue_bytes=65_536) as publisher:
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
                    world.put(("a", {"filler": "x" * 20_000, "n": sent}))
                    sent += 1
                    await until(lambda wanted=sent: got == wanted)  # type: ignore[misc]
            assert counts(publisher) == (1, 1, 1, 1)
            assert publisher.stats.closes == {3008: 1}
            stuck.socket.transport.resume_reading()
            assert await stuck.closed() == (3008, "slow")
            reading.cancel()


async def test_a_state_larger_than_the_queue_is_not_slowness() -> None:
    world = World()
    for n in range(50):
        world.put((f"k{n}", {"filler": "x" * 20_000}))
    async with serving(world, queue_bytes=65_536) as publisher, raw(publisher) as client:
        await client.connect()
        for n, channel in enumerate(("odds", "odds?", "odds?where="), 2):
            await client.send({"id": n, "subscribe": {"channel": channel}})
        for _ in range(3):
            reply = await client.next()
            assert len(reply["subscribe"]["data"]["rows"]) == 50
        world.put(("k0", {"n": 1}))
        assert {(await client.next())["push"]["channel"] for _ in range(3)} == {
            "odds",
            "odds?",
            "odds?where=",
        }
        assert publisher.stats.slow == 0
        assert counts(publisher) == (1, 1, 3, 3)


async def test_lost_connections_leave_nothing_behind() -> None:
    world = World()
    async with serving(world) as publisher:
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
        assert len(world.store.all[VIEW].subscriptions) == 60  # they lapse, so that clients may come back
        assert json.dumps(describe(publisher.hub, publisher.stats, ""))
