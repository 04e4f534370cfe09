"""Version 3: producing, a stream of records in and a stream of answers out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.integration.gateway.proxy.calls import Calls, b64
from tests.support.stack import Feeding, RunningStack

from distributary.kafka import topics


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return topics.ensure_topic(stack.admin(), feeding.topic, 1).name


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def address(url: str, http: aiohttp.ClientSession, topic: str) -> str:
    found = await Calls(url, http)("GET", "/v3/clusters")
    return f"{url}/v3/clusters/{found.body['data'][0]['cluster_id']}/topics/{topic}/records"


async def test_every_type(url: str, http: aiohttp.ClientSession, topic: str, stack: RunningStack) -> None:
    records: list[dict[str, Any]] = [
        {
            "partition_id": 0,
            "headers": [{"name": "h", "value": b64(b"v")}, {"name": "none"}],
            "key": {"type": "BINARY", "data": b64(b"k")},
            "value": {"type": "JSON", "data": {"a": [1]}},
            "timestamp": "2026-01-31T08:00:00Z",
        },
        {"key": {"type": "STRING", "data": "é"}, "value": {"type": "STRING", "data": None}},
        {"value": {"type": "AVRO", "schema": '"long"', "data": 5}},
        {"value": {"schema_version": "latest", "data": 6}},
        {"value": {"type": "AVRO", "schema_id": 1, "data": 7}},
    ]
    body = "\n".join(json.dumps(one) for one in records)
    async with http.post(await address(url, http, topic), data=body) as reply:
        assert reply.status == 200
        said = [json.loads(line) for line in (await reply.text()).splitlines()]
    assert [(one["error_code"], one["offset"]) for one in said] == [(200, at) for at in range(5)]
    assert said[0]["timestamp"] == "2026-01-31T08:00:00.000Z"
    assert (said[0]["key"], said[0]["value"]) == ({"type": "BINARY", "size": 1}, {"type": "JSON", "size": 10})
    assert said[3]["value"] == {"type": "AVRO", "size": 6}
    found = stack.read(topic, 5)
    assert [one.value() for one in found] == [
        b'{"a": [1]}',
        None,
        b"\0\0\0\0\1\n",
        b"\0\0\0\0\1\f",
        b"\0\0\0\0\1\x0e",
    ]
    assert found[0].headers() == [("h", b"v"), ("none", None)]
    assert found[0].timestamp()[1] == 1769846400000
    assert found[1].key() == "é".encode()


async def test_answers_come_while_the_request_goes_on(
    url: str, http: aiohttp.ClientSession, topic: str
) -> None:
    more: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def body() -> AsyncIterator[bytes]:
        while (chunk := await more.get()) is not None:
            yield chunk

    more.put_nowait(b'{"value": {"type": "STRING", "data": "\xc3')
    more.put_nowait(b'\xa9"}}{"value": {"type": "BINARY", "data": "not base64"}}')
    async with http.post(await address(url, http, topic), data=body()) as reply:
        assert reply.status == 200
        assert json.loads(await reply.content.readline())["offset"] == 0
        assert json.loads(await reply.content.readline())["error_code"] == 422
        more.put_nowait(b'{"value": {"type": "JSON", "data": 1}}')
        assert json.loads(await reply.content.readline())["offset"] == 1
        more.put_nowait(b"{")
        more.put_nowait(None)
        assert json.loads(await reply.content.readline())["error_code"] == 400
        assert await reply.content.readline() == b""


async def test_what_is_refused(url: str, http: aiohttp.ClientSession, topic: str) -> None:
    call, good = Calls(url, http), {"value": {"type": "STRING", "data": "x"}}
    path = await address(url, http, topic)
    for where, body, code in [
        (path.replace(topic, "nowhere"), good, 40401),
        (url + f"/v3/clusters/other/topics/{topic}/records", good, 404),
        (path, b"", 400),
        (path, b"[]", 400),
        (path, b'{"value"', 400),
        (path, {**good, "partition_id": 5}, 40402),
        (path, {"value": {"type": "XML", "data": "x"}}, 422),
        (path, {"value": {"type": "STRING", "data": 5}}, 422),
        (path, {"value": {"data": 5}}, 422),
        (path, {**good, "headers": [{"name": "h", "value": "?"}]}, 422),
        (path, {**good, "timestamp": "yesterday"}, 422),
        (path, {"value": {"type": "AVRO", "subject": "none", "schema": '"int"', "data": 1}}, 40401),
        (path, {"value": {"type": "STRING", "data": "x" * 2_000_000}}, 50002),
    ]:
        refused = await call("POST", where, body, type="application/json")
        assert refused.code == code, (where, body, refused)
        assert refused.status == (code if code < 1000 else code // 100)
