"""What slow and greedy clients get, on real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import aiohttp.web
import pytest
from tests.support.serving_http import WAIT, connected, on_uvloop, reply, rest, serving
from tests.support.wait import eventually

from distributary.errors import PortTaken
from distributary.httpd.listener import Listener

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


async def until(condition: Any) -> None:
    async def ask() -> Any:
        return condition()

    await eventually(ask, bool)


async def trickle(writer: asyncio.StreamWriter, data: bytes, pause: float) -> None:
    for at in range(len(data)):
        writer.write(data[at : at + 1])
        await asyncio.sleep(pause)


@on_uvloop
async def test_head_that_never_ends_is_answered_with_408_and_closed() -> None:
    async with serving(header_timeout=0.3) as listener, connected(listener) as (reader, writer):
        sending = asyncio.create_task(trickle(writer, HEAD + b"X-Padding: " + b"x" * 10_000, 0.05))
        assert (await rest(reader)).startswith(b"HTTP/1.1 408 ")
        sending.cancel()
        assert listener.tally.timed_out == {"head": 1}
        await until(lambda: listener.tally.open == 0)


@on_uvloop
async def test_client_that_says_nothing_is_closed() -> None:
    async with serving(header_timeout=0.3) as listener, connected(listener) as (reader, _):
        assert await rest(reader) == b""
        assert listener.tally.timed_out == {"head": 1}


@on_uvloop
async def test_the_head_of_a_further_request_has_its_deadline_from_its_first_byte() -> None:
    async with serving(header_timeout=0.3) as listener, connected(listener) as (reader, writer):
        writer.write(HEAD + b"\r\n")
        await reply(reader)
        await asyncio.sleep(0.6)  # idle is not slow
        writer.write(HEAD + b"\r\n")
        assert json.loads(await reply(reader)) == {"hello": "/"}
        writer.write(HEAD)
        assert (await rest(reader)).startswith(b"HTTP/1.1 408 ")
        assert listener.tally.timed_out == {"head": 1}


@on_uvloop
async def test_idle_connection_is_closed_after_the_keepalive() -> None:
    async with serving(keepalive_timeout=0.3) as listener, connected(listener) as (reader, writer):
        writer.write(HEAD + b"\r\n")
        await reply(reader)
        assert await rest(reader) == b""
        assert listener.tally.timed_out == {}


@on_uvloop
async def test_body_that_trickles_is_answered_with_408_and_closed() -> None:
    async with serving(body_timeout=0.4) as listener, connected(listener) as (reader, writer):
        writer.write(POST % (b"/upload", 1000))
        sending = asyncio.create_task(trickle(writer, b"x" * 1000, 0.05))
        assert (await rest(reader)).startswith(b"HTTP/1.1 408 ")
        sending.cancel()
        assert listener.tally.timed_out == {"body": 1}


@on_uvloop
async def test_body_that_trickles_after_its_reply_is_closed_without_another() -> None:
    async with serving(body_timeout=0.4) as listener, connected(listener) as (reader, writer):
        writer.write(POST % (b"/ignored", 1000))
        sending = asyncio.create_task(trickle(writer, b"x" * 1000, 0.05))
        said = await rest(reader)
        sending.cancel()
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.count(b"HTTP/1.1 ") == 1
        assert listener.tally.timed_out == {"body": 1}


@on_uvloop
async def test_long_upload_at_a_decent_rate_is_taken() -> None:
    async with serving(body_timeout=0.3) as listener, connected(listener) as (reader, writer):
        writer.write(POST % (b"/upload", 20 * 4096))
        for _ in range(20):
            writer.write(b"x" * 4096)
            await asyncio.sleep(0.05)
        assert json.loads(await reply(reader)) == {"size": 20 * 4096}
        assert listener.tally.timed_out == {}


@on_uvloop
async def test_body_that_the_server_does_not_read_yet_is_not_cut() -> None:
    async with serving(body_timeout=0.3) as listener, connected(listener) as (reader, writer):
        writer.write(POST % (b"/unread", 5_000_000) + b"x" * 5_000_000)
        assert json.loads(await reply(reader)) == {"size": 5_000_000}
        assert listener.tally.timed_out == {}


@on_uvloop
async def test_streamed_body_may_trickle_but_not_stop() -> None:
    async with serving(body_timeout=0.2) as listener, connected(listener) as (reader, writer):
        writer.write(b"POST /records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            writer.write(b"1\r\nx\r\n")
            await asyncio.sleep(0.1)
        assert listener.tally.timed_out == {}
        assert (await rest(reader)).startswith(b"HTTP/1.1 408 ")
        assert listener.tally.timed_out == {"body": 1}


@on_uvloop
async def test_streamed_body_that_ends_is_answered() -> None:
    async with serving(body_timeout=0.2) as listener, connected(listener) as (reader, writer):
        writer.write(POST % (b"/records", 10))
        await trickle(writer, b"x" * 10, 0.05)
        assert json.loads(await reply(reader)) == {"size": 10}
        assert listener.tally.timed_out == {}


@pytest.mark.parametrize("path", [b"/big", b"/events"])
@on_uvloop
async def test_client_that_never_reads_is_closed(path: bytes) -> None:
    async with serving(write_timeout=0.4) as listener, connected(listener, small=True) as (_, writer):
        writer.write(HEAD.replace(b"GET /", b"GET " + path) + b"\r\n")
        await until(lambda: listener.tally.timed_out == {"write": 1})
        await until(lambda: listener.tally.open == 0)


@on_uvloop
async def test_client_that_never_reads_is_closed_though_it_was_let_go() -> None:
    """A closed connection with something left to send would wait for its reader for ever."""
    async with (
        serving(write_timeout=0.4, keepalive_timeout=0.1, send_buffer=4096) as listener,
        connected(listener, small=True) as (_, writer),
    ):
        # So much that the kernel does not take it, and so little that the handler need not wait.
        writer.write(HEAD.replace(b"GET /", b"GET /middling") + b"\r\n")
        await until(lambda: listener.tally.timed_out == {"write": 1})
        await until(lambda: listener.tally.open == 0)


@on_uvloop
async def test_slow_reader_gets_everything() -> None:
    async with serving(write_timeout=0.6) as listener, connected(listener) as (reader, writer):
        writer.write(HEAD.replace(b"GET /", b"GET /big") + b"Connection: close\r\n\r\n")
        size = 0
        while data := await reader.read(1_000_000):
            size += len(data)
            await asyncio.sleep(0.02)
        assert size > 20_000_000
        assert listener.tally.timed_out == {}


@on_uvloop
async def test_websocket_may_be_silent_for_longer_than_any_request() -> None:
    limits: dict[str, Any] = {
        "header_timeout": 0.2,
        "body_timeout": 0.2,
        "write_timeout": 0.2,
        "keepalive_timeout": 0.2,
    }
    async with serving(**limits) as listener, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"http://127.0.0.1:{listener.port}/chat") as talk:
            await asyncio.sleep(0.8)
            await talk.send_str("still here")
            assert await talk.receive_str(timeout=WAIT) == "still here"
        assert listener.tally.timed_out == {}


@on_uvloop
async def test_connections_over_the_total_get_503_and_the_others_go_on() -> None:
    async with serving(max_connections=2) as listener:
        async with connected(listener) as (reader, writer), connected(listener) as (other, speaks):
            await until(lambda: listener.tally.open == 2)
            async with connected(listener) as (refused, _):
                assert (await rest(refused)).startswith(b"HTTP/1.1 503 ")
            for read, write in ((reader, writer), (other, speaks)):
                write.write(HEAD + b"\r\n")
                assert json.loads(await reply(read)) == {"hello": "/"}
        assert listener.tally.refused == {"total": 1}
        await until(lambda: listener.tally.open == 0)
        async with connected(listener) as (reader, writer):
            writer.write(HEAD + b"\r\n")
            await reply(reader)


@on_uvloop
async def test_connections_of_one_address_over_its_bound_get_503_and_others_are_served() -> None:
    async with serving(max_connections_per_address=2, exempt_loopback=False) as listener:
        async with connected(listener, "127.0.0.2"), connected(listener, "127.0.0.2"):
            await until(lambda: listener.tally.open == 2)
            async with connected(listener, "127.0.0.2") as (refused, _):
                said = await rest(refused)
            assert said.startswith(b"HTTP/1.1 503 ")
            assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "too-many-connections"
            async with connected(listener, "127.0.0.3") as (reader, writer):
                writer.write(HEAD + b"\r\n")
                assert json.loads(await reply(reader)) == {"hello": "/"}
        assert listener.tally.refused == {"address": 1}


@on_uvloop
async def test_clients_behind_a_trusted_proxy_are_bounded_each_by_itself() -> None:
    settings: dict[str, Any] = {"trusted_proxies": ("127.0.0.1",), "max_connections_per_address": 1}
    async with serving(**settings) as listener, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{listener.port}"
        ann, ben = ({"X-Forwarded-For": address} for address in ("203.0.113.1", "203.0.113.2"))
        async with http.ws_connect(f"{url}/chat", headers=ann):
            async with http.get(url, headers=ann) as answer:
                assert answer.status == 503
                assert answer.headers["Retry-After"] == "1"
            async with http.get(url, headers=ben) as answer:
                assert answer.status == 200
        await until(lambda: not listener.tally._by_client)
        async with http.get(url, headers=ann) as answer:
            assert answer.status == 200


@on_uvloop
async def test_port_that_is_taken_is_named_with_its_setting() -> None:
    async with serving() as listener:
        other = Listener(
            aiohttp.web.Application(),
            listener._settings,
            server="the other",
            setting="control.port",
            stop_seconds=1.0,
        )
        with pytest.raises(PortTaken, match=r"the other cannot listen on 127.0.0.1:\d+") as raised:
            await other.start(listener.port)
        assert "control.port" in raised.value.hint
