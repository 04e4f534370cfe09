"""A topic as a stream: from the requested start, without gaps or repeats after a reconnection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import aiohttp
import pytest
from confluent_kafka import TopicPartition
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import GatewayClient, b64
from tests.support.clock import LIMIT
from tests.support.stack import Feeding, RunningStack
from tests.support.topics import grow
from tests.support.wait import eventually

from distributary.auth.token_issuer import sign_token
from distributary.config import Auth, Config
from distributary.gateway.topic_stream import topic_reader
from distributary.kafka import librdkafka
from distributary.kafka.topics import delete_topic, ensure_topic, replace_topic


class Event(NamedTuple):
    name: str
    id: str
    data: Any


class Stream:
    """Reads the events of one response."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply

    async def next(self) -> Event:
        fields: dict[str, str] = {}
        async with asyncio.timeout(20 * LIMIT):
            while True:
                line = (await self._reply.content.readline()).decode()
                assert line, "the stream ended"
                if line == "\n" and "data" in fields:
                    return Event(fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"]))
                name, _, value = line.rstrip("\n").partition(": ")
                if name and not line.startswith(":"):
                    fields[name] = value

    async def values(self, count: int) -> list[Any]:
        return [(await self.next()).data["value"] for _ in range(count)]


def offsets(id: str) -> str:
    """Return the part of an event's id without the topic's id."""
    found, _, topic = id.partition("@")
    assert topic, id
    return found


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return ensure_topic(stack.admin(), feeding.topic, 2).name


@asynccontextmanager
async def open_stream(
    http: aiohttp.ClientSession, url: str, topic: str, query: str = "", **headers: str
) -> AsyncIterator[Stream]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with http.get(f"{url}/v1/topics/{topic}/stream?{query}", headers=sent) as reply:
        assert reply.status == 200, await reply.text()
        assert reply.content_type == "text/event-stream"
        yield Stream(reply)


async def test_new_record_is_pushed_to_the_stream(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [(None, "before")])
    async with open_stream(http, url, topic) as stream:
        assert (await stream.next()).name == "ready"
        stack.produce(topic, [("k", {"a": 1.10})], partition=1, headers=[("h", b"v")])
        name, _, data = await stream.next()
    assert name == ""
    assert data.pop("timestamp") > 0
    offset = data.pop("offset")
    assert offset in (0, 1)
    assert data == {
        "partition": 1,
        "headers": [{"name": "h", "value": b64(b"v")}],
        "key": "k",
        "value": {"a": 1.1},
    }


async def test_client_that_reconnects_gets_every_record_once(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [(str(at), at) for at in range(40)])
    seen: list[int] = []
    last = ""
    while len(seen) < 40:
        headers = {"Last_Event_ID": last} if last else {}
        async with open_stream(http, url, topic, "from=earliest", **headers) as stream:
            await stream.next()
            for _ in range(min(7, 40 - len(seen))):
                _, last, data = await stream.next()
                seen.append(data["value"])
    assert sorted(seen) == list(range(40))
    async with open_stream(http, url, topic, f"last_event_id={last}") as stream:
        assert (await stream.next()).id == last
        stack.produce(topic, [(None, "new")])
        assert await stream.values(1) == ["new"]


async def test_stream_starts_at_the_requested_position(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    for at in range(4):
        stack.produce(topic, [(None, at)], partition=0, timestamp=1_700_000_000_000 + at * 1000)
    consumer = librdkafka.consumer(stack.config.kafka, f"{topic}-group")
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    for query, expected in [
        ("from=earliest", [0, 1, 2, 3]),
        ("offset=1&partition=0", [1, 2, 3]),
        ("offsets=0:3", [3]),
        ("time=1700000002000", [2, 3]),
        ("time=2023-11-14T22:13:21Z", [1, 2, 3]),
        (f"group={topic}-group", [2, 3]),
    ]:
        async with open_stream(http, url, topic, query) as stream:
            await stream.next()
            assert await stream.values(len(expected)) == expected, query


async def test_deleted_records_are_reported_as_a_gap(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [(None, at) for at in range(5)], partition=0)
    admin = stack.admin()  # its futures fail once it is deleted
    deleted = admin.delete_records([TopicPartition(topic, 0, 3)])
    assert [one.result(20 * LIMIT).low_watermark for one in deleted.values()] == [3]
    async with open_stream(http, url, topic, "offsets=0:1,1:0") as stream:
        assert (await stream.next()).name == "ready"
        gap = await stream.next()
        assert (gap.name, offsets(gap.id)) == ("gap", "0:3,1:0")
        assert gap.data == {"partition": 0, "wanted": 1, "first": 3, "reason": "deleted"}
        assert await stream.values(2) == [3, 4]
    # A position of another topic of the same name is beyond the end of this one.
    async with open_stream(http, url, topic, "offsets=1:99&partition=1") as stream:
        await stream.next()
        gap = await stream.next()
        assert gap.data == {"partition": 1, "wanted": 99, "first": 0, "reason": "recreated"}


async def test_connected_stream_follows_added_partition(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [(None, "before")], partition=0)
    async with (
        open_stream(http, url, topic) as stream,
        open_stream(http, url, topic, "partition=0") as chosen,
    ):
        assert offsets((await stream.next()).id) == "0:1,1:0"
        await chosen.next()
        await grow(stack.admin(), topic, 3)
        stack.produce(topic, [(None, "new")], partition=2)
        event = await stream.next()
        assert (event.data["value"], offsets(event.id)) == ("new", "0:1,1:0,2:1")
        # A stream of chosen partitions stays with them.
        stack.produce(topic, [(None, "old")], partition=0)
        event = await chosen.next()
        assert (event.data["value"], offsets(event.id)) == ("old", "0:2")


async def test_recreated_topic_is_a_gap_even_if_it_is_longer(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [(None, f"old {at}") for at in range(3)], partition=0)
    async with open_stream(http, url, topic, "from=earliest") as stream:
        await stream.next()
        last = [await stream.next() for _ in range(3)][-1].id
        assert offsets(last) == "0:3,1:0"
        replace_topic(stack.admin(), topic, 2)
        stack.produce(topic, [(None, f"new {at}") for at in range(5)], partition=0)
        # The stream that stayed connected gets a gap, and continues with the first record.
        while (event := await stream.next()).name != "gap" or event.data["partition"] != 0:
            pass
        assert event.data == {
            "partition": 0,
            "wanted": event.data["wanted"],
            "first": 0,
            "reason": "recreated",
        }
        found: list[Any] = []
        while len(found) < 5:
            found += [event.data["value"]] if (event := await stream.next()).name == "" else []
        assert found == [f"new {at}" for at in range(5)]
    # So does one that reconnects, with a position that exists in this topic too.
    async with open_stream(http, url, topic, Last_Event_ID=last) as stream:
        await stream.next()
        gaps = [(await stream.next()).data for _ in range(2)]
        assert {"partition": 0, "wanted": 3, "first": 0, "reason": "recreated"} in gaps
        assert await stream.values(5) == [f"new {at}" for at in range(5)]
    # A position without the topic's id is used as it is.
    async with open_stream(http, url, topic, "offsets=0:3,1:0") as stream:
        await stream.next()
        assert await stream.values(2) == ["new 3", "new 4"]


async def test_stream_ends_if_its_topic_stays_missing(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "_MISSING_TIMEOUT", 1.0)
    async with open_stream(http, url, topic) as stream:
        await stream.next()
        delete_topic(stack.admin(), topic)
        event = await stream.next()
        assert (event.name, event.data["error_code"]) == ("end", 40401)


async def test_record_of_another_format_does_not_stop_the_stream(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [(None, b"\xff"), (None, None), (None, 3)], partition=0)
    async with open_stream(http, url, topic, "from=earliest") as stream:
        await stream.next()
        bad, null, good = [await stream.next() for _ in range(3)]
    assert (bad.name, bad.data["value"], offsets(bad.id)) == ("unreadable", b64(b"\xff"), "0:1,1:0")
    assert (null.data["value"], good.data["value"]) == (None, 3)


async def test_avro_record_is_sent_as_json(http: aiohttp.ClientSession, url: str, topic: str) -> None:
    sent = await GatewayClient(url, http).produce(
        topic, {"string": "x"}, format="avro", value_schema='["null", "string"]'
    )
    assert sent.status == 200
    async with open_stream(http, url, topic, "from=earliest&format=avro") as stream:
        await stream.next()
        assert await stream.values(1) == [{"string": "x"}]


async def test_websocket_receives_records_with_ids(
    http: aiohttp.ClientSession, url: str, topic: str, stack: RunningStack
) -> None:
    stack.produce(topic, [("k", {"a": 1})], partition=0)
    async with http.ws_connect(f"{url}/v1/topics/{topic}/stream?from=earliest") as socket:
        ready = await socket.receive_json()
        assert (ready["event"], offsets(ready["id"])) == ("ready", "0:0,1:0")
        assert ready["positions"] == {"0": 0, "1": 0}
        record = await socket.receive_json()
        assert (offsets(record["id"]), record["key"], record["value"]) == ("0:1,1:0", "k", {"a": 1})
        stack.produce(topic, [(None, 2)], partition=1)
        assert offsets((await socket.receive_json())["id"]) == "0:1,1:1"


async def test_stream_takes_one_of_the_limited_consumers_until_it_ends(
    start: Start, http: aiohttp.ClientSession, topic: str
) -> None:
    url = await start(max_instances=1)
    async with open_stream(http, url, topic) as stream:
        await stream.next()
        assert (await GatewayClient(url, http)("GET", f"/v1/topics/{topic}/stream")).code == 50301

    async def status() -> int:
        async with http.get(f"{url}/v1/topics/{topic}/stream") as reply:
            return reply.status

    await eventually(status, lambda found: found == 200)


async def test_stream_ends_when_its_token_expires(
    start: Start, settings: Config, http: aiohttp.ClientSession, topic: str
) -> None:
    auth = Auth(hmac_secret="a secret of the tests, long enough for HS256", leeway=0.0)
    url = await start(replace(settings, auth=auth))
    token, _ = sign_token(auth, "ann", {"operator": "admin"}, 2)
    async with open_stream(http, url, topic, Authorization=f"Bearer {token}") as stream:
        assert (await stream.next()).name == "ready"
        name, _, data = await stream.next()
        assert (name, data["error_code"]) == ("end", 40101)


async def test_invalid_stream_request_is_rejected(http: aiohttp.ClientSession, url: str, topic: str) -> None:
    call = GatewayClient(url, http)
    for path, code in [
        ("nowhere/stream", 40401),
        (f"{topic}/stream?partition=9", 40402),
        (f"{topic}/stream?from=middle", 400),
        (f"{topic}/stream?from=earliest&offset=1", 400),
        (f"{topic}/stream?offsets=0-1", 400),
        (f"{topic}/stream?time=noon", 400),
        (f"{topic}/stream?format=xml", 400),
        (f"{topic}/stream?form=earliest", 400),
        (f"{topic}/stream?last_event_id=x", 400),
    ]:
        assert (await call("GET", f"/v1/topics/{path}")).code == code, path
