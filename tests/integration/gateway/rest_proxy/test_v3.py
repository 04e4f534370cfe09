"""Version 3: producing, a stream of records in and a stream of results out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import JSON, GatewayClient, Reply, b64
from tests.support.stack import Feeding, RunningStack

from distributary.auth.token_issuer import sign_token
from distributary.config import Auth, Config
from distributary.kafka import topic_offsets
from distributary.kafka.topics import ensure_topic


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return ensure_topic(stack.admin(), feeding.topic, 1).name


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def address(url: str, http: aiohttp.ClientSession, topic: str) -> str:
    found = await GatewayClient(url, http)("GET", "/v3/clusters")
    return f"{url}/v3/clusters/{found.body['data'][0]['cluster_id']}/topics/{topic}/records"


async def test_record_of_every_type_is_written(
    url: str, http: aiohttp.ClientSession, topic: str, stack: RunningStack
) -> None:
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
        results = [json.loads(line) for line in (await reply.text()).splitlines()]
    assert [(one["error_code"], one["offset"]) for one in results] == [(200, at) for at in range(5)]
    assert results[0]["timestamp"] == "2026-01-31T08:00:00.000Z"
    assert (results[0]["key"], results[0]["value"]) == (
        {"type": "BINARY", "size": 1},
        {"type": "JSON", "size": 10},
    )
    assert results[3]["value"] == {"type": "AVRO", "size": 6}
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


async def test_results_arrive_while_the_request_is_sent(
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
        assert json.loads(await reply.content.readline())["error_code"] == 400
        more.put_nowait(b'{"value": {"type": "JSON", "data": 1}}')
        assert json.loads(await reply.content.readline())["offset"] == 1
        more.put_nowait(b"{")
        more.put_nowait(None)
        assert json.loads(await reply.content.readline())["error_code"] == 400
        assert await reply.content.readline() == b""


ODDS = {"type": "record", "name": "Odds", "namespace": "book", "fields": []}


async def subjects(call: GatewayClient) -> list[str]:
    found: list[str] = (await call("GET", "/subjects")).body
    return found


async def test_stream_may_outlast_the_timeout_of_bodies(
    start: Start, http: aiohttp.ClientSession, topic: str
) -> None:
    url = await address(await start(body_timeout=0.2), http, topic)

    async def records() -> AsyncIterator[bytes]:
        for at in range(5):
            yield json.dumps({"value": {"type": "JSON", "data": at}}).encode()
            await asyncio.sleep(0.2)

    async with http.post(url, data=records()) as reply:
        results = [json.loads(line) for line in (await reply.text()).splitlines()]
    assert [one["error_code"] for one in results] == [200] * 5


async def test_slow_body_that_is_not_a_stream_times_out(
    start: Start, http: aiohttp.ClientSession, topic: str
) -> None:
    url = await start(body_timeout=0.2)

    async def body() -> AsyncIterator[bytes]:
        yield b'{"records": ['
        for _ in range(100):
            await asyncio.sleep(0.1)
            yield b" "

    kind = {"Content-Type": "application/vnd.kafka.json.v2+json"}
    try:
        async with http.post(f"{url}/topics/{topic}", data=body(), headers=kind) as reply:
            assert reply.status == 408
    except aiohttp.ClientConnectionError:
        pass  # the connection was closed while the client was sending


async def test_subject_name_strategy_determines_the_subject(
    url: str, http: aiohttp.ClientSession, topic: str
) -> None:
    call, path = GatewayClient(url, http), await address(url, http, topic)

    async def send(part: str, **datum: Any) -> Reply:
        return await call("POST", path, {part: {"data": {}, **datum}}, type=JSON)

    schema = json.dumps(ODDS)
    for strategy, part, subject in [
        ("RECORD_NAME", "value", "book.Odds"),
        ("TOPIC_RECORD_NAME", "value", f"{topic}-book.Odds"),
        ("TOPIC_NAME", "key", f"{topic}-key"),
    ]:
        sent = await send(part, type="AVRO", schema=schema, subject_name_strategy=strategy)
        assert sent.status == 200, sent
        assert subject in await subjects(call)
    assert f"{topic}-value" not in await subjects(call)
    titled = json.dumps({"title": "Score", "type": "object"})
    made = await send("value", type="JSONSCHEMA", schema=titled, subject_name_strategy="RECORD_NAME")
    assert made.status == 200
    assert "Score" in await subjects(call)
    # An id must belong to the subject that the strategy determines.
    known = (await call("GET", "/subjects/Score/versions/latest")).body["id"]
    assert (await send("value", schema_id=known, subject_name_strategy="RECORD_NAME")).status == 200
    assert (await send("value", schema_id=str(known), subject="Score")).status == 200
    assert (await send("value", schema_id=known)).code == 42207
    assert (await send("value", schema_id=known, subject_name_strategy="TOPIC_RECORD_NAME")).code == 42207
    assert (await send("value", schema_version=1, subject_name_strategy="RECORD_NAME")).code == 400
    nameless = {"type": "AVRO", "schema": '"int"', "subject_name_strategy": "RECORD_NAME"}
    assert (await send("value", **nameless)).code == 42207
    registered = {"type": "AVRO", "schema": schema, "subject": "chosen"}
    assert (await send("value", **registered)).status == 200
    assert "chosen" in await subjects(call)


async def test_producer_registers_schemas_only_under_granted_subjects(
    start: Start, settings: Config, http: aiohttp.ClientSession, topic: str
) -> None:
    auth = Auth(hmac_secret="a secret of the tests, long enough for HS256")
    url = await start(replace(settings, auth=auth))
    admin, producer = (
        {"Authorization": f"Bearer {sign_token(auth, 'ann', claims, 60)[0]}"}
        for claims in ({"operator": "admin"}, {"produce": [topic], "register": [f"{topic}-value"]})
    )
    call = GatewayClient(url, http)
    found = await call("GET", "/v3/clusters", **producer)
    path = f"/v3/clusters/{found.body['data'][0]['cluster_id']}/topics/{topic}/records"
    body = {"value": {"type": "AVRO", "schema": json.dumps(ODDS), "data": {}}}
    for more, code in [
        ({"subject_name_strategy": "RECORD_NAME"}, 40301),
        ({"subject": "chosen"}, 40301),
        ({"subject": f"{topic}-more-value"}, 40301),
        ({"subject_name_strategy": "TOPIC_RECORD_NAME"}, 40301),
        ({}, 200),
    ]:
        sent = await call("POST", path, {"value": {**body["value"], **more}}, type=JSON, **producer)
        assert sent.body["error_code"] == code, (more, sent)
    named = {"value": {**body["value"], "subject_name_strategy": "RECORD_NAME"}}
    assert (await call("POST", path, named, type=JSON, **admin)).status == 200
    assert (await call("POST", path, named, type=JSON, **producer)).status == 200


async def test_invalid_record_is_rejected(
    url: str, http: aiohttp.ClientSession, topic: str, stack: RunningStack
) -> None:
    call, good = GatewayClient(url, http), {"value": {"type": "STRING", "data": "x"}}
    path = await address(url, http, topic)
    for where, body, code in [
        (path.replace(topic, "nowhere"), good, 40401),
        (url + f"/v3/clusters/other/topics/{topic}/records", good, 404),
        (path, b"", 400),
        (path, b"[]", 400),
        (path, b'{"value"', 400),
        (path, {**good, "partition_id": 5}, 40402),
        (path, {"value": {"type": "XML", "data": "x"}}, 422),
        (path, {"value": {"type": "STRING", "data": 5}}, 400),
        (path, {"value": {"data": 5}}, 422),
        (path, {"records": [good]}, 400),
        (path, {"valeu": good["value"]}, 400),
        (path, {"value": {"type": "JSON", "value": 1}}, 400),
        (path, {**good, "headers": [{"name": "h", "value": "?"}]}, 400),
        (path, {**good, "timestamp": "yesterday"}, 422),
        (
            path,
            {"value": {"type": "AVRO", "schema": '"int"', "subject_name_strategy": "NAME", "data": 1}},
            400,
        ),
        (path, {"value": {"subject": "a", "subject_name_strategy": "TOPIC_NAME", "schema_id": 1}}, 400),
        (path, {"value": {"schema_version": 1, "schema_id": 1}}, 400),
        (path, {"value": {"type": "JSON", "schema": '"int"', "data": 1}}, 400),
        (path, {"value": {"type": "STRING", "subject": "a", "data": "x"}}, 400),
        (path, {"value": {"type": "BINARY", "subject_name_strategy": "TOPIC_NAME"}}, 400),
        (path, {"value": {"subject": "none", "schema_version": 1, "data": 1}}, 40401),
        (path, {"value": {"type": "STRING", "data": "x" * 2_000_000}}, 50002),
    ]:
        rejected = await call("POST", where, body, type="application/json")
        assert rejected.code == code, (where, body, rejected)
        assert rejected.status == (code if code < 1000 else code // 100)
    assert topic_offsets.end_offsets(stack.admin(), topic) == {0: 0}
