"""Invalid requests are rejected with the codes that clients know, and nothing of them is written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import GatewayClient, b64, media
from tests.support.stack import Feeding, RunningStack
from tests.support.wait import eventually

from distributary.config.server_sections import Gateway
from distributary.kafka import topic_offsets
from distributary.kafka.topics import ensure_topic

GOOD = {"records": [{"value": b64(b"x")}]}


@pytest.fixture
async def call(url: str) -> AsyncIterator[GatewayClient]:
    async with aiohttp.ClientSession() as http:
        yield GatewayClient(url, http)


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return ensure_topic(stack.admin(), feeding.topic, 2).name


async def test_invalid_produce_request_is_rejected_and_writes_nothing(
    call: GatewayClient, topic: str, stack: RunningStack
) -> None:
    cases: list[tuple[str, Any, str, int]] = [
        ("/topics/nowhere", GOOD, "binary", 40401),
        ("/topics/not%20a%20topic", GOOD, "binary", 40401),
        ("/topics/T/partitions/2", GOOD, "binary", 40402),
        ("/topics/T/partitions/x", GOOD, "binary", 40402),
        ("/topics/T", {"records": [{"value": b64(b"x"), "partition": 7}]}, "binary", 40402),
        ("/topics/T", {"records": [{"value": b64(b"x"), "partition": -1}]}, "binary", 40402),
        ("/topics/T/partitions/0", {"records": [{"value": None, "partition": 1}]}, "binary", 422),
        ("/topics/T", {"records": []}, "binary", 422),
        ("/topics/T", {"recods": []}, "binary", 400),
        ("/topics/T", {}, "binary", 422),
        ("/topics/T", {"records": [{"key": "k", "valeu": {"a": 1}}]}, "json", 400),
        ("/topics/T", {"records": [{"value": 1}], "valueschema": '"int"'}, "json", 400),
        ("/topics/T", {"value": {"type": "JSON", "data": 1}}, "json", 400),
        ("/topics/T", {"records": [{"value": 1}], "value_schema": '"int"'}, "json", 422),
        ("/topics/T", {**GOOD, "key_schema_id": 1}, "binary", 422),
        ("/topics/T", {"records": [{"value": b64(b"x")}, {"value": "not base64"}]}, "binary", 400),
        ("/topics/T", {"records": [{"value": 5}]}, "binary", 400),
        ("/topics/T", {"records": [{"value": "x", "partition": "0"}]}, "json", 422),
        ("/topics/T", b'{"records": [{"value": 1}', "json", 400),
        ("/topics/T", b'// JSON with comments\n{"records": [{"value": 1}]}', "json", 400),
        ("/topics/T", b"", "json", 400),
        ("/topics/T", {"records": [{"value": 1}]}, "avro", 42202),
        ("/topics/T", {"records": [{"key": 1, "value": 1}], "value_schema": '"int"'}, "avro", 42201),
        ("/topics/T", {"records": [{"value": 1}], "value_schema": '"nope"'}, "avro", 42205),
        ("/topics/T", {"records": [{"value": 1}], "value_schema_id": 999}, "avro", 42207),
        ("/topics/T", {"records": [{"value": 1}], "value_schema_id": "999"}, "avro", 42207),
        ("/topics/T", {"records": [{"value": 1}], "value_schema_id": "x"}, "avro", 422),
        ("/topics/T", {"records": [{}], "value_schema_id": 1, "value_schema": '"int"'}, "avro", 422),
        ("/topics/T", {"records": [{"value": "x"}], "value_schema": '"int"'}, "avro", 42203),
        ("/topics/T", {"records": [{"value": 2**40}], "value_schema": '"int"'}, "avro", 42203),
        ("/topics/T", {"records": [{"value": "x"}], "value_schema": '"string"'}, "avro", 409),
        ("/topics/T", GOOD, "protobuf", 415),
    ]
    for path, body, format, code in cases:
        rejected = await call("POST", path.replace("/T", f"/{topic}"), body, type=media(format))
        assert rejected.code == code, (path, body, rejected)
        assert rejected.status == (code if code < 1000 else code // 100)
    assert topic_offsets.end_offsets(stack.admin(), topic) == {0: 0, 1: 0}


async def test_record_that_is_too_large_fails_alone(call: GatewayClient, topic: str) -> None:
    sent = await call.produce(topic, "small", "x" * 2_000_000)
    assert sent.status == 200
    good, bad = sent.body["offsets"]
    assert good["error_code"] is None
    assert (bad["error_code"], bad["offset"]) == (1, None)
    assert "size" in bad["error"].lower()


async def test_body_that_is_too_large_is_rejected(start: Start, topic: str) -> None:
    async with aiohttp.ClientSession() as http:
        call = GatewayClient(await start(max_body=2048), http)
        rejected = await call.produce(topic, "x" * 4096)
        assert (rejected.status, rejected.code) == (413, 413)
        assert "max_body" in rejected.body["message"]


async def test_invalid_consumer_request_is_rejected(call: GatewayClient, topic: str) -> None:
    for body, code in [
        ({"format": "protobuf"}, 42204),
        ({"auto.offset.reset": "sideways"}, 42204),
        ({"auto.commit.enable": "perhaps"}, 42204),
        ({"auto.ofset.reset": "latest"}, 42204),
        ({"name": "a/b"}, 42204),
        (b"{", 400),
        (b"[]", 400),
    ]:
        assert (await call("POST", "/consumers/g", body)).code == code, body
    base = await call.create_instance(topic, name="one")
    assert (await call("POST", f"/consumers/{topic}", {"name": "one"})).code == 40902
    partition = {"topic": topic, "partition": 0}
    cases: list[tuple[str, str, Any, int]] = [
        ("GET", "/records", None, 40903),
        ("POST", "/subscription", {"topics": ["nowhere"]}, 40401),
        ("POST", "/subscription", {"topics": "x"}, 422),
        ("POST", "/subscription", {}, 422),
        ("POST", "/subscription", {"topics": [topic], "topic_pattern": "a"}, 40903),
        ("POST", "/subscription", {"topic_pattern": "(a"}, 422),
        ("POST", "/subscription", {"topic_patern": "a"}, 400),
        ("POST", "/assignments", {"partitions": [{**partition, "partition": 9}]}, 40402),
        ("POST", "/assignments", {"partitions": [{"topic": topic}]}, 422),
        ("POST", "/positions", {"offsets": [{**partition, "offset": 1}]}, 40903),
        ("POST", "/positions", {"offsets": [partition]}, 422),
        ("GET", "/offsets", None, 400),
        ("GET", "/records?timeout=x", None, 40903),
    ]
    for method, path, body, code in cases:
        assert (await call(method, base + path, body)).code == code, (method, path, body)
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    assert (await call("GET", f"{base}/records?timeout=x")).code == 400
    assert (await call("GET", f"{base}/records", accept="text/html")).code == 40601
    assert (await call("DELETE", base)).status == 204
    for method, path in [("GET", "/records"), ("DELETE", ""), ("POST", "/offsets")]:
        assert (await call(method, base + path)).code == 40403


async def test_record_of_another_format_is_reported_and_skipped_by_seeking(
    call: GatewayClient, topic: str
) -> None:
    body = {"records": [{"value": b64(b"1")}, {"value": b64(b"\xff")}, {"value": b64(b"3")}]}
    await call("POST", f"/topics/{topic}/partitions/0", body, type=media("binary"))
    base, partition = await call.create_instance(topic), {"topic": topic, "partition": 0}
    await call("POST", f"{base}/assignments", {"partitions": [partition]})
    assert [one["value"] for one in await call.read(base, 1)] == [1]
    for _ in range(2):
        rejected = await call("GET", f"{base}/records", accept=media("json"))
        assert rejected.code == 42203
        assert f"record 1 of partition 0 of '{topic}'" in rejected.body["message"]
    await call("POST", f"{base}/positions", {"offsets": [{**partition, "offset": 2}]})
    assert [one["value"] for one in await call.read(base, 1)] == [3]


async def test_instance_of_version_1_reads_one_topic(
    call: GatewayClient, topic: str, stack: RunningStack
) -> None:
    ensure_topic(stack.admin(), f"{topic}-2", 1)
    joined = {"id": "mine", "format": "binary", "auto.offset.reset": "smallest"}
    made = await call("POST", f"/consumers/{topic}", joined, type="application/vnd.kafka.v1+json")
    assert made.body["instance_id"] == "mine"
    base = made.body["base_uri"]
    await call("POST", f"/topics/{topic}", GOOD, type="application/vnd.kafka.v1+json")

    async def read() -> list[Any]:
        got = await call("GET", f"{base}/topics/{topic}", accept=media("binary", 1))
        assert got.type == media("binary", 1)
        found: list[Any] = got.body
        return found

    found = await eventually(read, lambda records: records)
    assert set(found[0]) == {"key", "value", "partition", "offset"}
    assert (found[0]["key"], found[0]["value"]) == (None, b64(b"x"))
    committed = await call("POST", f"{base}/offsets", b"", type="application/vnd.kafka.v1+json")
    assert committed.body == [
        {"topic": topic, "partition": found[0]["partition"], "consumed": 0, "committed": 0}
    ]
    assert (await call("GET", f"{base}/topics/{topic}-2", accept=media("binary", 1))).code == 40901
    assert (await call("GET", f"{base}/topics/{topic}", accept=media("avro", 1))).code == 40601


async def test_partition_is_read_from_an_offset(call: GatewayClient, topic: str) -> None:
    await call(
        "POST", f"/topics/{topic}/partitions/1", {"records": [{"value": b64(b"%d" % at)} for at in range(5)]}
    )
    path = f"/topics/{topic}/partitions/1"
    found = await call("GET", f"{path}/messages?offset=3&count=9", accept=media("binary", 1))
    assert [(one["offset"], one["value"]) for one in found.body] == [(3, b64(b"3")), (4, b64(b"4"))]
    assert [one["offset"] for one in (await call("GET", f"{path}/messages?offset=1")).body] == [1]
    assert (await call("GET", f"{path}/messages?offset=5")).body == []
    for query, code in [("offset=6", 422), ("", 422), ("offset=x", 400), ("offset=0&count=0", 400)]:
        assert (await call("GET", f"{path}/messages?{query}")).code == code, query
    assert (await call("GET", f"/topics/{topic}/partitions/7/messages?offset=0")).code == 40402
    assert (await call("GET", f"{path}/offsets")).body == {"beginning_offset": 0, "end_offset": 5}


async def test_number_of_instances_is_limited(start: Start, topic: str) -> None:
    async with aiohttp.ClientSession() as http:
        call = GatewayClient(await start(max_instances=2), http)
        bases = [await call.create_instance(topic) for _ in range(2)]
        rejected = await call("POST", f"/consumers/{topic}", {})
        assert (rejected.status, rejected.code) == (503, 50301)
        assert "max_instances" in rejected.body["message"]
        await call("DELETE", bases[0])
        await call.create_instance(topic)


async def test_unused_instance_is_closed_and_frees_its_slot(start: Start, topic: str) -> None:
    async with aiohttp.ClientSession() as http:
        call = GatewayClient(await start(max_instances=1, instance_timeout=1.0), http)
        base = await call.create_instance(topic)
        await eventually(lambda: call("POST", f"/consumers/{topic}", {}), lambda made: made.status == 200)
        assert (await call("GET", f"{base}/subscription")).code == 40403


async def test_thousands_of_requests_for_instances_get_as_many_as_the_limit(start: Start, topic: str) -> None:
    before = threading.active_count()
    async with aiohttp.ClientSession() as http:
        call = GatewayClient(await start(), http)
        most = Gateway().max_instances

        async def one() -> int:
            made = await call("POST", f"/consumers/{topic}", {})
            assert made.status == 200 or made.code == 50301
            return made.status

        statuses = await asyncio.gather(*(one() for _ in range(3000)))
        assert (statuses.count(200), statuses.count(503)) == (most, 3000 - most)
    assert threading.active_count() <= before + most
