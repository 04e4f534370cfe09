"""Version 2 by plain requests: produce, subscribe, assign, seek, commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.proxy.calls import Calls, b64, media
from tests.support.stack import Feeding, RunningStack
from tests.support.waiting import eventually

from distributary.kafka import topics


@pytest.fixture
async def call(url: str) -> AsyncIterator[Calls]:
    async with aiohttp.ClientSession() as http:
        yield Calls(url, http)


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return topics.ensure_topic(stack.admin(), feeding.topic, 2).name


async def test_json_is_kept_as_it_was_written(call: Calls, topic: str, stack: RunningStack) -> None:
    raw = b'{"records":[{"key":"k","value":%b},{"key":"k","value":null}]}'
    raw %= b'{"price": 1.10, "id": 12345678901234567890123}'
    sent = await call("POST", f"/topics/{topic}", raw, type=media("json"))
    assert sent.status == 200
    assert [one["error_code"] for one in sent.body["offsets"]] == [None, None]
    found = stack.read(topic, 2)
    assert [one.value() for one in found] == [b'{"price": 1.10, "id": 12345678901234567890123}', None]
    assert {one.key() for one in found} == {b'"k"'}
    base = await call.join(topic)
    assert (await call("POST", f"{base}/subscription", {"topics": [topic]})).status == 204
    first, second = await call.read(base, 2)
    assert first == {
        "topic": topic,
        "key": "k",
        "value": {"price": 1.1, "id": 12345678901234567890123},
        "partition": first["partition"],
        "offset": 0,
    }
    assert second["value"] is None
    assert (await call("DELETE", base)).status == 204


async def test_keys_land_where_javas_client_puts_them(
    call: Calls, stack: RunningStack, feeding: Feeding
) -> None:
    topics.ensure_topic(stack.admin(), feeding.topic, 8)
    body = {"records": [{"key": b64(key), "value": b64(b"x")} for key in (b"a", b"hello", b"foobar", b"")]}
    sent = await call("POST", f"/topics/{feeding.topic}", body, type=media("binary"))
    # murmur2 of each, made positive, modulo 8: known values of the Java client's partitioner.
    assert [one["partition"] for one in sent.body["offsets"]] == [
        _murmur2(key) % 8 for key in (b"a", b"hello", b"foobar", b"")
    ]


def _murmur2(data: bytes) -> int:
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    for at in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[len(data) // 4 * 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


async def test_assign_seek_and_commit(call: Calls, topic: str) -> None:
    body = {"records": [{"value": at, "partition": 0} for at in range(5)]}
    assert (await call("POST", f"/topics/{topic}", body, type=media("json"))).status == 200
    place = {"topic": topic, "partition": 0}
    base = await call.join(topic, **{"auto.commit.enable": "false"})
    assert (await call("POST", f"{base}/assignments", {"partitions": [place]})).status == 204
    assert (await call("GET", f"{base}/assignments")).body == {"partitions": [place]}
    assert [one["value"] for one in await call.read(base, 5)] == [0, 1, 2, 3, 4]
    assert (await call("POST", f"{base}/positions", {"offsets": [{**place, "offset": 3}]})).status == 204
    assert [one["value"] for one in await call.read(base, 2)] == [3, 4]
    assert (await call("POST", f"{base}/positions/beginning", {"partitions": [place]})).status == 204
    assert [one["value"] for one in await call.read(base, 5)] == [0, 1, 2, 3, 4]
    assert (await call("POST", f"{base}/positions/end", {"partitions": [place]})).status == 204
    assert (await call("GET", f"{base}/records?timeout=10", accept=media("json"))).body == []
    assert (await call("GET", f"{base}/offsets", {"partitions": [place]})).body == {"offsets": []}
    assert (await call("POST", f"{base}/offsets", {"offsets": [{**place, "offset": 2}]})).body == []
    kept = {"offsets": [{**place, "offset": 3, "metadata": ""}]}
    assert (await call("GET", f"{base}/offsets", {"partitions": [place]})).body == kept
    assert (await call("POST", f"{base}/subscription", {"topics": [topic]})).code == 40903


async def test_a_group_goes_on_where_it_committed(call: Calls, topic: str) -> None:
    for automatic, count in ((True, 2), (False, 5)):
        group = f"{topic}-{automatic}"
        await call.produce(topic, 1, 2)
        base = await call.join(group, **{"auto.commit.enable": str(automatic).lower()})
        await call("POST", f"{base}/subscription", {"topics": [topic]})
        seen = await call.read(base, count)
        if not automatic:
            assert (await call("POST", f"{base}/offsets", b"")).body == []
        await call("DELETE", base)
        await call.produce(topic, "new")
        again = await call.join(group)
        await call("POST", f"{again}/subscription", {"topics": [topic]})
        assert [one["value"] for one in await call.read(again, 1)] == ["new"], seen
        await call("DELETE", again)


async def test_two_instances_share_a_topic_though_one_is_silent(call: Calls, topic: str) -> None:
    """An instance whose client does nothing takes part in the group all the same."""
    one, other = await call.join(topic), await call.join(topic)
    for base in (one, other):
        await call("POST", f"{base}/subscription", {"topics": [topic]})
    await call("GET", f"{one}/records?timeout=10", accept=media("json"))

    async def held() -> list[int]:
        await call("GET", f"{other}/records?timeout=100", accept=media("json"))
        return [len((await call("GET", f"{base}/assignments")).body["partitions"]) for base in (one, other)]

    await eventually(held, lambda found: found == [1, 1])
    assert (await call("GET", f"{one}/subscription")).body == {"topics": [topic]}
    assert (await call("DELETE", f"{one}/subscription")).status == 204
    await eventually(held, lambda found: found == [0, 2])


async def test_a_read_waits_for_what_comes(call: Calls, topic: str) -> None:
    base = await call.join(topic)
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    waiting = asyncio.ensure_future(call("GET", f"{base}/records?timeout=20000", accept=media("json")))
    await eventually(
        lambda: call("GET", f"/topics/{topic}"), lambda reply: reply.status == 200 and not waiting.done()
    )
    await call.produce(topic, "here")
    assert [one["value"] for one in (await waiting).body] == ["here"]


async def test_a_request_that_is_broken_off_loses_nothing(call: Calls, topic: str) -> None:
    base = await call.join(topic)
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call("GET", f"{base}/records?timeout=2000", accept=media("json")), 0.2)
    await call.produce(topic, "kept")
    assert [one["value"] for one in await call.read(base, 1)] == ["kept"]


async def test_jsonschema_and_avro(call: Calls, topic: str, stack: RunningStack) -> None:
    whole = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    sent = await call.produce(topic, {"n": 1}, format="jsonschema", value_schema=whole)
    number = sent.body["value_schema_id"]
    assert [one.value() for one in stack.read(topic, 1)] == [b"\0" + number.to_bytes(4, "big") + b'{"n": 1}']
    assert (await call.produce(topic, {"n": "x"}, format="jsonschema", value_schema_id=number)).code == 42203
    base = await call.join(topic, format="jsonschema")
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    assert [one["value"] for one in await call.read(base, 1, format="jsonschema")] == [{"n": 1}]
    assert (await call("GET", f"{base}/records", accept=media("avro"))).code == 40601
    other = f"{topic}-2"
    topics.ensure_topic(stack.admin(), other, 1)
    union = json.dumps(["null", "string"])
    sent = await call.produce(other, {"string": "a"}, None, format="avro", value_schema=union)
    assert sent.status == 200, sent
    assert [one.value() for one in stack.read(other, 2)] == [b"\0\0\0\0\2\2\2a", None]


async def test_base_uri_is_right_behind_a_proxy(call: Calls, start: Start, topic: str) -> None:
    async def told(to: Calls, **headers: str) -> str:
        made = await to("POST", f"/consumers/{topic}", {}, **headers)
        return str(made.body["base_uri"]).split("/consumers/")[0]

    assert await told(call) == call.url
    assert (
        await told(call, X_Forwarded_Proto="https", X_Forwarded_Host="k.example.com")
        == "https://k.example.com"
    )
    assert (
        await told(call, X_Forwarded_Host="k.example.com", X_Forwarded_Prefix="/rest")
        == "http://k.example.com/rest"
    )
    assert (
        await told(call, X_Forwarded_Host="k.example.com/x?y", X_Forwarded_Prefix="javascript:") == call.url
    )
    async with aiohttp.ClientSession() as http:
        advertised = Calls(await start(advertised_url="https://k.example.com/rest/"), http)
        assert await told(advertised) == "https://k.example.com/rest"
        assert (await advertised("GET", "/rest/brokers")).status == 200
