"""Version 2 by plain requests: produce, subscribe, assign, seek, commit."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import JSON, GatewayClient, b64, media
from tests.support.clock import LIMIT
from tests.support.stack import Feeding, RunningStack
from tests.support.topics import grow
from tests.support.wait import eventually

from distributary.gateway.rest_proxy import consumer_pool
from distributary.kafka import topic_offsets
from distributary.kafka.admin import Cluster
from distributary.kafka.group_admin import describe_group
from distributary.kafka.topics import ensure_topic


@pytest.fixture
async def call(url: str) -> AsyncIterator[GatewayClient]:
    async with aiohttp.ClientSession() as http:
        yield GatewayClient(url, http)


@pytest.fixture
def topic(stack: RunningStack, feeding: Feeding) -> str:
    return ensure_topic(stack.admin(), feeding.topic, 2).name


async def test_json_is_kept_byte_by_byte(call: GatewayClient, topic: str, stack: RunningStack) -> None:
    raw = b'{"records":[{"key":"k","value":%b},{"key":"k","value":null}]}'
    raw %= b'{"price": 1.10, "id": 12345678901234567890123}'
    sent = await call("POST", f"/topics/{topic}", raw, type=media("json"))
    assert sent.status == 200
    assert [one["error_code"] for one in sent.body["offsets"]] == [None, None]
    found = stack.read(topic, 2)
    assert [one.value() for one in found] == [b'{"price": 1.10, "id": 12345678901234567890123}', None]
    assert {one.key() for one in found} == {b'"k"'}
    base = await call.create_instance(topic)
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


async def test_keys_are_partitioned_as_by_the_java_client(
    call: GatewayClient, stack: RunningStack, feeding: Feeding
) -> None:
    ensure_topic(stack.admin(), feeding.topic, 8)
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


async def test_assigned_instance_seeks_and_commits(call: GatewayClient, topic: str) -> None:
    body = {"records": [{"value": at, "partition": 0} for at in range(5)]}
    assert (await call("POST", f"/topics/{topic}", body, type=media("json"))).status == 200
    partition = {"topic": topic, "partition": 0}
    base = await call.create_instance(topic, **{"auto.commit.enable": "false"})
    assert (await call("POST", f"{base}/assignments", {"partitions": [partition]})).status == 204
    assert (await call("GET", f"{base}/assignments")).body == {"partitions": [partition]}
    assert [one["value"] for one in await call.read(base, 5)] == [0, 1, 2, 3, 4]
    assert (await call("POST", f"{base}/positions", {"offsets": [{**partition, "offset": 3}]})).status == 204
    assert [one["value"] for one in await call.read(base, 2)] == [3, 4]
    assert (await call("POST", f"{base}/positions/beginning", {"partitions": [partition]})).status == 204
    assert [one["value"] for one in await call.read(base, 5)] == [0, 1, 2, 3, 4]
    assert (await call("POST", f"{base}/positions/end", {"partitions": [partition]})).status == 204
    assert (await call("GET", f"{base}/records?timeout=10", accept=media("json"))).body == []
    assert (await call("GET", f"{base}/offsets", {"partitions": [partition]})).body == {"offsets": []}
    with_metadata = {**partition, "offset": 2, "metadata": "by hand"}
    assert (await call("POST", f"{base}/offsets", {"offsets": [with_metadata]})).body == []
    expected = {"offsets": [{**partition, "offset": 3, "metadata": "by hand"}]}
    assert (await call("GET", f"{base}/offsets", {"partitions": [partition]})).body == expected
    assert (await call("POST", f"{base}/subscription", {"topics": [topic]})).code == 40903


async def test_group_continues_where_it_committed(call: GatewayClient, topic: str) -> None:
    for automatic, count in ((True, 2), (False, 5)):
        group = f"{topic}-{automatic}"
        await call.produce(topic, 1, 2)
        base = await call.create_instance(group, **{"auto.commit.enable": str(automatic).lower()})
        await call("POST", f"{base}/subscription", {"topics": [topic]})
        seen = await call.read(base, count)
        if not automatic:
            assert (await call("POST", f"{base}/offsets", b"")).body == []
        await call("DELETE", base)
        await call.produce(topic, "new")
        again = await call.create_instance(group)
        await call("POST", f"{again}/subscription", {"topics": [topic]})
        assert [one["value"] for one in await call.read(again, 1)] == ["new"], seen
        await call("DELETE", again)


async def test_two_instances_share_a_topic_though_one_is_idle(call: GatewayClient, topic: str) -> None:
    """An instance whose client does nothing takes part in the group, too."""
    one, other = await call.create_instance(topic), await call.create_instance(topic)
    for base in (one, other):
        await call("POST", f"{base}/subscription", {"topics": [topic]})
    await call("GET", f"{one}/records?timeout=10", accept=media("json"))

    async def assigned() -> list[int]:
        await call("GET", f"{other}/records?timeout=100", accept=media("json"))
        return [len((await call("GET", f"{base}/assignments")).body["partitions"]) for base in (one, other)]

    await eventually(assigned, lambda found: found == [1, 1])
    assert (await call("GET", f"{one}/subscription")).body == {"topics": [topic]}
    assert (await call("DELETE", f"{one}/subscription")).status == 204
    await eventually(assigned, lambda found: found == [0, 2])


async def test_read_waits_for_new_records(call: GatewayClient, topic: str) -> None:
    base = await call.create_instance(topic)
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    waiting = asyncio.ensure_future(call("GET", f"{base}/records?timeout=20000", accept=media("json")))
    await eventually(
        lambda: call("GET", f"/topics/{topic}"), lambda reply: reply.status == 200 and not waiting.done()
    )
    await call.produce(topic, "here")
    assert [one["value"] for one in (await waiting).body] == ["here"]


async def test_instance_survives_an_aborted_request_beside_another(
    call: GatewayClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_pool, "ABANDONED", 0.5)

    def reading(base: str, wait: int) -> asyncio.Future[Any]:
        return asyncio.ensure_future(call("GET", f"{base}/records?timeout={wait}", accept=media("json")))

    both, alone = [await call.create_instance(topic) for _ in range(2)]
    for base in (both, alone):
        await call("POST", f"{base}/subscription", {"topics": [topic]})
    first, second, third = reading(both, 20_000), reading(both, 10), reading(alone, 20_000)
    await eventually(lambda: call("GET", f"/topics/{topic}"), lambda reply: reply.status == 200)
    first.cancel()
    third.cancel()
    assert (await second).status == 200
    await eventually(lambda: closed(call, alone), bool)
    assert not await closed(call, both)


async def closed(call: GatewayClient, base: str) -> bool:
    """Whether an instance is closed: its name is free; any other request would count as use."""
    group, name = base.split("/consumers/")[1].split("/instances/")
    made = await call("POST", f"/consumers/{group}", {"name": name})
    return made.status == 200


async def test_read_waits_for_fetch_min_bytes(call: GatewayClient, topic: str) -> None:
    base = await call.create_instance(topic, **{"fetch.min.bytes": 30})
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    await call(
        "POST", f"/topics/{topic}/partitions/0", {"records": [{"value": "x" * 10}]}, type=media("json")
    )
    waiting = asyncio.ensure_future(call("GET", f"{base}/records?timeout=20000", accept=media("json")))
    # Its 12 bytes are too few, and so are 24; 36 are enough.
    for _ in range(2):
        done, _ = await asyncio.wait([waiting], timeout=1.0)
        assert not done
        await call.produce(topic, "x" * 10)
    assert len((await waiting).body) == 3
    # When the time is over, the response has what there is.
    await call.produce(topic, "last")
    assert [one["value"] for one in await call.read(base, 1)] == ["last"]


async def test_aborted_read_loses_nothing(call: GatewayClient, topic: str) -> None:
    """The client may return at once, and still has its instance."""
    base = await call.create_instance(topic)
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call("GET", f"{base}/records?timeout=2000", accept=media("json")), 0.2)
    await call.produce(topic, "kept")
    assert [one["value"] for one in await call.read(base, 1)] == ["kept"]


READ = """
import http.client, sys, urllib.parse
at = urllib.parse.urlsplit(sys.argv[1])
while True:
    connection = http.client.HTTPConnection(at.netloc)
    connection.request("GET", at.path + "/records?timeout=60000", headers={"Accept": sys.argv[2]})
    print("waits", flush=True)
    connection.getresponse().read()
    print("read", flush=True)
"""


async def test_partitions_of_a_killed_consumer_are_reassigned(
    call: GatewayClient, stack: RunningStack, feeding: Feeding
) -> None:
    """The client is killed while it waits for records: its instance is deleted without a request."""
    name = feeding.topic
    ensure_topic(stack.admin(), name, 3)
    bases = [await call.create_instance(name) for _ in range(3)]
    for base in bases:
        await call("POST", f"{base}/subscription", {"topics": [name]})
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", READ, base, media("json"), stdout=asyncio.subprocess.PIPE
        )
        for base in bases
    ]

    async def assigned(members: list[str]) -> list[int]:
        found = await asyncio.to_thread(groups, stack, name)
        return sorted(found.get(member, 0) for member in members)

    try:
        members = [f"distributary-gateway-{base.rsplit('/', 1)[1]}" for base in bases]
        await eventually(lambda: assigned(members), lambda found: found == [1, 1, 1])
        await call(
            "POST",
            f"/topics/{name}",
            {"records": [{"value": at, "partition": at} for at in range(3)]},
            type=media("json"),
        )
        for process in processes:
            assert process.stdout is not None
            for line in (b"waits\n", b"read\n", b"waits\n"):
                assert await asyncio.wait_for(process.stdout.readline(), 20 * LIMIT) == line
        await call("GET", "/topics")  # earlier requests have arrived by now
        processes[0].kill()
        await eventually(lambda: assigned(members[1:]), lambda found: found == [1, 2], limit=10.0)
        assert (await call("GET", f"{bases[0]}/subscription")).code == 40403
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


def groups(stack: RunningStack, group: str) -> dict[str, int]:
    """Return how many partitions the members of a group have, by client id."""
    found = describe_group(Cluster(stack.config.kafka, stack.admin()), group)
    return {one.client_id: len(one.partitions) for one in found.members}


async def test_records_with_schemas_are_written_and_read(
    call: GatewayClient, topic: str, stack: RunningStack
) -> None:
    whole = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    sent = await call.produce(topic, {"n": 1}, format="jsonschema", value_schema=whole)
    number = sent.body["value_schema_id"]
    assert [one.value() for one in stack.read(topic, 1)] == [b"\0" + number.to_bytes(4, "big") + b'{"n": 1}']
    assert (await call.produce(topic, {"n": "x"}, format="jsonschema", value_schema_id=number)).code == 42203
    base = await call.create_instance(topic, format="jsonschema")
    await call("POST", f"{base}/subscription", {"topics": [topic]})
    assert [one["value"] for one in await call.read(base, 1, format="jsonschema")] == [{"n": 1}]
    assert (await call("GET", f"{base}/records", accept=media("avro"))).code == 40601
    other = f"{topic}-2"
    ensure_topic(stack.admin(), other, 1)
    union = json.dumps(["null", "string"])
    sent = await call.produce(other, {"string": "a"}, None, format="avro", value_schema=union)
    assert sent.status == 200, sent
    assert [one.value() for one in stack.read(other, 2)] == [b"\0\0\0\0\2\2\2a", None]


async def test_topic_pattern_subscribes_to_matching_topics(
    call: GatewayClient, topic: str, stack: RunningStack
) -> None:
    admin, names = stack.admin(), [f"{topic}-{end}" for end in ("a1", "b2", "a1-more", "c3")]
    for name in names[:3]:
        ensure_topic(admin, name, 1)
    base = await call.create_instance(topic)
    body = {"topic_pattern": rf"{topic}-[a-z]\d"}
    assert (await call("POST", f"{base}/subscription", body)).status == 204
    assert (await call("GET", f"{base}/subscription")).body == {"topics": names[:2]}
    for name in names[:3]:
        await call.produce(name, name)
    assert sorted(one["value"] for one in await call.read(base, 2)) == names[:2]
    # A topic that is created later is found, and read from its first record.
    ensure_topic(admin, names[3], 1)
    await call.produce(names[3], "later")
    assert [one["value"] for one in await call.read(base, 1)] == ["later"]
    assert (await call("GET", f"{base}/subscription")).body == {"topics": [*names[:2], names[3]]}
    nothing = await call.create_instance(f"{topic}-nothing")
    await call("POST", f"{nothing}/subscription", {"topic_pattern": f"{topic}-none"})
    assert (await call("GET", f"{nothing}/subscription")).body == {"topics": []}
    assert (await call("GET", f"{nothing}/records?timeout=10", accept=media("json"))).body == []


async def test_schema_id_of_another_subject_is_rejected(
    call: GatewayClient, topic: str, stack: RunningStack
) -> None:
    ids = {}
    for subject, schema in (("other", "string"), (f"{topic}-value", "long"), (f"{topic}-key", "int")):
        made = await call("POST", f"/subjects/{subject}/versions", {"schema": f'"{schema}"'}, type=JSON)
        ids[schema] = made.body["id"]
    record = {"records": [{"key": 1, "value": 2}]}
    good = {**record, "key_schema_id": ids["int"], "value_schema_id": str(ids["long"])}
    assert (await call("POST", f"/topics/{topic}", good, type=media("avro"))).status == 200
    for name, schema in (("value", "string"), ("key", "string"), ("value", "int"), ("key", "long")):
        bad = {**good, f"{name}_schema_id": ids[schema]}
        rejected = await call("POST", f"/topics/{topic}", bad, type=media("avro"))
        assert (rejected.status, rejected.code) == (422, 42207), (bad, rejected)
        assert f"{topic}-{name}" in rejected.body["message"]
    await call("DELETE", f"/subjects/{topic}-value")
    assert (await call("POST", f"/topics/{topic}", good, type=media("avro"))).code == 42207
    assert sum(topic_offsets.end_offsets(stack.admin(), topic).values()) == 1


async def test_added_partitions_are_writable_at_once(
    call: GatewayClient, stack: RunningStack, feeding: Feeding
) -> None:
    name, admin = feeding.topic, stack.admin()
    ensure_topic(admin, name, 1)
    assert (await call.produce(name, "first")).status == 200
    cluster = (await call("GET", "/v3/clusters")).body["data"][0]["cluster_id"]
    third = f"/v3/clusters/{cluster}/topics/{name}/records"
    cases: list[tuple[int, str, dict[str, Any]]] = [
        (2, f"/topics/{name}", {"records": [{"value": at, "partition": 1} for at in range(3)]}),
        (3, f"/topics/{name}/partitions/2", {"records": [{"value": at} for at in range(3)]}),
        (4, third, {"partition_id": 3, "value": {"type": "JSON", "data": 1}}),
    ]
    for count, path, body in cases:
        await grow(admin, name, count)
        sent = await call("POST", path, body, type=JSON if "partition_id" in body else media("json"))
        results = sent.body.get("offsets", [sent.body])
        assert {one["partition" if "partition" in one else "partition_id"] for one in results} == {
            count - 1
        }, sent
        assert [one["offset"] for one in results] == list(range(len(results)))


async def test_base_uri_follows_proxy_headers(call: GatewayClient, start: Start, topic: str) -> None:
    async def base_of(gateway: GatewayClient, **headers: str) -> str:
        made = await gateway("POST", f"/consumers/{topic}", {}, **headers)
        return str(made.body["base_uri"]).split("/consumers/")[0]

    assert await base_of(call) == call.url
    assert (
        await base_of(call, X_Forwarded_Proto="https", X_Forwarded_Host="k.example.com")
        == "https://k.example.com"
    )
    assert (
        await base_of(call, X_Forwarded_Host="k.example.com", X_Forwarded_Prefix="/rest")
        == "http://k.example.com/rest"
    )
    assert (
        await base_of(call, X_Forwarded_Host="k.example.com/x?y", X_Forwarded_Prefix="javascript:")
        == call.url
    )
    async with aiohttp.ClientSession() as http:
        advertised = GatewayClient(await start(advertised_url="https://k.example.com/rest/"), http)
        assert await base_of(advertised) == "https://k.example.com/rest"
        assert (await advertised("GET", "/rest/brokers")).status == 200
