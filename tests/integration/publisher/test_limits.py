"""What one connection may do to a publisher, on real sockets; each limit in both formats where it differs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support.fake_view import VIEW, FakeView, until
from tests.support.serving_publisher import WAIT, raw, serving
from tests.support.wire_formats import CODECS, write

from distributary.publisher.codec.codec import Codec
from distributary.publisher.codec.json_codec import JSON
from distributary.publisher.codec.protobuf_codec import PROTOBUF
from distributary.publisher.metrics import describe
from distributary.publisher.publisher_server import PublisherServer

both = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.subprotocol)


@pytest.mark.parametrize(
    ("codec", "frame", "code"),
    [
        (JSON, "nonsense", 3501),
        (JSON, b"{}", 3501),
        (JSON, "", 3501),
        (JSON, '{"id":1,"subscribe":{"channel":"odds"}}', 3501),
        (JSON, "x" * 70_000, 1009),
        (PROTOBUF, b"nonsense", 3501),
        (PROTOBUF, "{}", 3501),
        (PROTOBUF, b"", 3501),
        (PROTOBUF, b"\x05\x08\x01", 3501),
        (PROTOBUF, b"\xff" * 1_000, 3501),
        (PROTOBUF, write(PROTOBUF, {"id": 1, "subscribe": {"channel": "odds"}}), 3501),
        (PROTOBUF, b"x" * 70_000, 1009),
    ],
)
async def test_bad_frames_close_and_are_counted(codec: Codec, frame: str | bytes, code: int) -> None:
    async with serving(FakeView()) as publisher, raw(publisher, codec) as client:
        await client.socket.send(frame)
        assert (await client.closed())[0] == code
        await until(lambda: publisher.stats.closes == {code: 1})
        assert publisher.stats.connections == 0


async def test_message_in_too_many_or_too_large_frames_is_refused() -> None:
    async with serving(FakeView(), max_frame=4096) as publisher:
        for pieces in (["x" * 1000] * 5, [" "] * 1_100):
            async with raw(publisher) as client:
                await client.socket.send(pieces)
                assert (await client.closed())[0] == 1009
        await until(lambda: publisher.stats.closes == {1009: 2})


async def test_largest_frame_is_accepted() -> None:
    async with serving(FakeView(), max_frame=4096) as publisher, raw(publisher) as client:
        hello = json.dumps({"id": 1, "connect": {}})
        await client.socket.send(hello + " " * (4096 - len(hello)))
        assert "connect" in await client.next()


@both
async def test_commands_before_connect_close(codec: Codec) -> None:
    commands: tuple[dict[str, Any], ...] = (
        {"id": 1, "history": {"channel": VIEW}},
        {"id": 1, "publish": {"channel": "feed:a", "data": {}}},
        {"id": 1, "rpc": {"method": "status", "data": {}}},
        {"id": 1, "unsubscribe": {"channel": VIEW}},
        {},
    )
    async with serving(FakeView()) as publisher:
        for command in commands:
            async with raw(publisher, codec) as client:
                await client.send(command)
                assert await client.closed() == (3501, "bad request")


@both
async def test_silent_connections_are_closed(codec: Codec) -> None:
    async with serving(FakeView(), auth_timeout=0.05) as publisher, raw(publisher, codec) as client:
        assert await client.closed() == (3502, "stale")
        assert publisher.stats.closes == {3502: 1}


async def test_sockets_that_never_become_websockets_are_closed() -> None:
    async with serving(FakeView(), auth_timeout=0.05) as publisher:
        for message in (b"", b"GET /connection/websocket HTTP/1.1\r\nHost: a\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", publisher.websocket.port)
            writer.write(message)
            async with asyncio.timeout(WAIT):
                await reader.read()
            writer.close()


async def test_too_many_channels_are_refused() -> None:
    async with serving(FakeView(), max_channels=3) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send(*({"id": n, "subscribe": {"channel": f"odds?keys=k{n}"}} for n in range(2, 6)))
        codes = [(await client.next()).get("error", {}).get("code", 0) for _ in range(4)]
        assert sorted(codes) == [0, 0, 0, 106]
        await client.send({"id": 9, "unsubscribe": {"channel": "odds?keys=k2"}})
        await client.next()
        await client.send({"id": 10, "subscribe": {"channel": "odds?keys=k9"}})
        assert "subscribe" in await client.next()


async def test_too_long_channel_name_is_refused() -> None:
    async with serving(FakeView()) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send({"id": 2, "subscribe": {"channel": "odds?keys=" + "k" * 20_000}})
        assert (await client.next())["error"]["code"] == 107


@both
async def test_commands_beyond_the_rate_are_refused_and_a_flood_is_closed(codec: Codec) -> None:
    async with (
        serving(FakeView(), max_command_rate=1, max_channels=5) as publisher,
        raw(publisher, codec) as client,
    ):
        await client.connect()
        await client.send(*({"id": n, "unsubscribe": {"channel": "x"}} for n in range(2, 9)))
        codes = [(await client.next()).get("error", {}).get("code", 0) for _ in range(7)]
        assert codes == [0] * 5 + [111] * 2
        await client.send(*({} for _ in range(50)))
        assert await client.closed() == (3013, "too many requests")


@both
async def test_client_that_subscribes_to_all_its_channels_is_not_a_flood(codec: Codec) -> None:
    async with serving(FakeView(), max_command_rate=1) as publisher, raw(publisher, codec) as client:
        await client.send(
            {"id": 1, "connect": {}},
            *({"id": n, "subscribe": {"channel": f"odds?keys=k{n}"}} for n in range(2, 130)),
        )
        message = [await client.next() for _ in range(129)]
        assert not [one for one in message if "error" in one]


def left(publisher: PublisherServer) -> tuple[int, ...]:
    message = describe(publisher.hub, publisher.stats, "")
    return tuple(message[name] for name in ("connections", "subscribers", "queries"))


async def test_one_connection_has_10_000_subscriptions() -> None:
    """The usual limit refuses them; with the setting raised they are served, and leave nothing behind."""
    fake_view = FakeView()
    fake_view.put(("k1", {"n": 1}))
    many = 10_000
    async with serving(fake_view) as publisher, raw(publisher) as client:
        await client.connect()
        await client.send(*({"id": n, "subscribe": {"channel": f"odds?keys=k{n}"}} for n in range(2, 132)))
        replies = [await client.next() for _ in range(130)]
        assert sorted(one["error"]["code"] for one in replies if "error" in one) == [106, 106]
    async with serving(fake_view, max_channels=many) as publisher:
        async with raw(publisher) as client:
            await client.connect()
            for start in range(0, many, 1_000):
                channels = [f"odds?keys=k{n}" for n in range(start, start + 1_000)]
                await client.send(
                    *({"id": n, "subscribe": {"channel": name}} for n, name in enumerate(channels, 2))
                )
                for _ in channels:
                    assert "subscribe" in await client.next()
            await client.send({"id": 9, "subscribe": {"channel": "odds?keys=more"}})
            assert (await client.next())["error"]["code"] == 106
            assert left(publisher) == (1, many, many)
            fake_view.put(("k1", {"n": 2}), ("k9999", {"n": 3}))
            assert {(await client.next())["push"]["channel"] for _ in range(2)} == {
                "odds?keys=k1",
                "odds?keys=k9999",
            }
        await until(lambda: left(publisher) == (0, 0, 0))
