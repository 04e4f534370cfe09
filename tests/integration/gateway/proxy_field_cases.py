"""Cases of the REST proxy and of streams: see `field_cases`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.integration.gateway.field_cases import (
    AVRO,
    ODDS,
    PLAIN,
    V2,
    V3,
    Case,
    GatewayUnderTest,
    Request,
    differ,
)
from tests.integration.gateway.rest_proxy.gateway_client import JSON, Reply, b64

_TIMEOUT = "consumer.request.timeout.ms"
MESSAGES = "/topics/{topic}/partitions/0/messages"


def produce(path: str) -> dict[str, Case]:
    """Return the cases for the fields of a body of version 2."""
    one, both = {"records": [{"value": 1}]}, {"records": [{"key": 1, "value": 1}], "value_schema": '"long"'}

    def pair(less: dict[str, Any], **more: Any) -> Case:
        return differ(("POST", path, less, AVRO), ("POST", path, {**less, **more}, AVRO))

    return {
        "records": differ(("POST", path, {"records": []}, AVRO), ("POST", path, {"records": [{}]}, AVRO)),
        "key_schema": pair(both, key_schema='"int"'),
        "key_schema_id": pair(both, key_schema_id="{key_id}"),
        "value_schema": pair(one, value_schema='"long"'),
        "value_schema_id": pair(one, value_schema_id="{value_id}"),
    }


async def _instances(gateway: GatewayUnderTest, name: str, *values: Any, assign: int = 0) -> list[str]:
    """Create instances that differ in one setting."""
    return [await gateway.instance(assign=assign, **{name: value}) for value in values]


async def _answered_and_waiting(
    gateway: GatewayUnderTest, answered: str, waiting: str, query: tuple[str, str]
) -> None:
    """Check that the read of one instance gets a response while that of the other still waits.

    How long a response takes depends on the machine. ``query`` has the query of each.
    """
    began = time.monotonic()
    reply = await gateway.request("GET", f"{answered}/records?{query[0]}", accept=PLAIN)
    took = time.monotonic() - began
    assert (reply.status, took < 30) == (200, True), "no read waits for a minute here"
    reading = asyncio.ensure_future(gateway.request("GET", f"{waiting}/records?{query[1]}", accept=PLAIN))
    done, _ = await asyncio.wait([reading], timeout=1.0 + took)
    reading.cancel()
    assert not done, "it does not wait"


async def _committed(gateway: GatewayUnderTest, base: str) -> Any:
    """Return what the instance's group has committed after a read and the deletion of the instance."""
    await gateway.read(base)
    await gateway.request("DELETE", base)
    group = base.split("/consumers/")[1].split("/")[0]
    again = await gateway.instance(group)
    return (await _ask_committed(gateway, again, 0)).body


async def _ask_committed(gateway: GatewayUnderTest, base: str, partition: int) -> Reply:
    target = {"topic": "{topic}", "partition": partition}
    return await gateway.request("GET", f"{base}/offsets", {"partitions": [target]}, V2)


async def _timeout(gateway: GatewayUnderTest) -> None:
    quick, slow = await gateway.instance(assign=1), await gateway.instance(assign=1)
    await _answered_and_waiting(gateway, quick, slow, ("timeout=1", "timeout=60000"))


async def _max_bytes(gateway: GatewayUnderTest) -> None:
    base = await gateway.instance()
    assert (
        len(await gateway.read(base, "timeout=20000&max_bytes=1")),
        len(await gateway.read(base)) > 1,
    ) == (
        1,
        True,
    )


async def _name(gateway: GatewayUnderTest) -> None:
    for name in ("id", "name"):
        reply = await gateway.request("POST", "/consumers/{new}", {name: f"my-{name}"}, V2)
        assert reply.body["instance_id"] == f"my-{name}"


async def _instance_format(gateway: GatewayUnderTest) -> None:
    seen = [await gateway.read(await gateway.instance(format=one), format=one) for one in ("json", "binary")]
    assert seen[0][0] != seen[1][0], seen


async def _commit(gateway: GatewayUnderTest) -> None:
    base = await gateway.instance()
    for offset, note in ((1, "one"), (3, "three")):
        body = {"offsets": [{"topic": "{topic}", "partition": 0, "offset": offset, "metadata": note}]}
        assert (await gateway.request("POST", f"{base}/offsets", body, V2)).status == 200
        (committed,) = (await _ask_committed(gateway, base, 0)).body["offsets"]
        assert (committed["partition"], committed["offset"], committed["metadata"]) == (0, offset + 1, note)
    assert (await _ask_committed(gateway, base, 1)).body == {"offsets": []}


async def _subscribe(gateway: GatewayUnderTest) -> None:
    for body in ({"topics": ["{topic}"]}, {"topic_pattern": "{topic}.?"}):
        base = await gateway.instance(assign=None)
        assert (await gateway.request("GET", f"{base}/subscription")).body == {"topics": []}
        assert (await gateway.request("POST", f"{base}/subscription", body, V2)).status == 204
        assert (await gateway.request("GET", f"{base}/subscription")).body == {
            "topics": [gateway.names["topic"]]
        }


async def _seek(gateway: GatewayUnderTest) -> None:
    base, target = await gateway.instance(), {"topic": "{topic}", "partition": 0}
    await gateway.request("POST", f"{base}/positions/end", {"partitions": [target]}, V2)
    assert await gateway.read(base, "timeout=300") == []
    await gateway.request("POST", f"{base}/positions/beginning", {"partitions": [target]}, V2)
    first = (await gateway.read(base))[0]
    await gateway.request("POST", f"{base}/positions", {"offsets": [{**target, "offset": 1}]}, V2)
    assert (await gateway.read(base))[0] != first
    other = {"partitions": [{**target, "partition": 1}]}
    assert (await gateway.request("POST", f"{base}/positions/end", other, V2)).code == 40903


async def _assign(gateway: GatewayUnderTest) -> None:
    for number in (0, 1):
        base = await gateway.instance(assign=number)
        reply = await gateway.request("GET", f"{base}/assignments")
        assert reply.body == {"partitions": [{"topic": gateway.names["topic"], "partition": number}]}


async def _headers(gateway: GatewayUnderTest) -> None:
    sent = [{"name": "h", "value": b64(b"v")}]
    assert (await gateway.written(headers=sent, value={"type": "JSON", "data": 1})).headers() == [("h", b"v")]


async def _parts(gateway: GatewayUnderTest) -> None:
    key, value = {"type": "STRING", "data": "k"}, {"type": "JSON", "data": [1]}
    message = await gateway.written(key=key, value=value, partition_id=1, timestamp=1_700_000_000_000)
    assert (message.key(), message.value(), message.partition()) == (b"k", b"[1]", 1)
    assert message.timestamp()[1] == 1_700_000_000_000


async def _items(gateway: GatewayUnderTest) -> None:
    body = {"records": [{"key": "k", "value": {"a": 1}, "partition": 1}]}
    (reply,) = (await gateway.request("POST", "/topics/{written}", body, PLAIN)).body["offsets"]
    got = await gateway.request(
        "GET", f"/topics/{{written}}/partitions/1/messages?offset={reply['offset']}", accept=PLAIN
    )
    assert [(one["key"], one["value"]) for one in got.body] == [("k", {"a": 1})]


def _datum(**more: Any) -> Request:
    return "POST", V3, {"value": {"data": {}, **more}}


def _stream(*queries: str) -> Case:
    async def run(gateway: GatewayUnderTest) -> None:
        seen = [await gateway.positions(query) for query in queries]
        assert seen[0] != seen[1], (queries, seen)

    return run


async def _format(gateway: GatewayUnderTest) -> None:
    seen = []
    for format in ("json", "binary"):
        path = gateway.fill(f"/v1/topics/{{topic}}/stream?from=earliest&partition=0&format={format}")
        async with gateway.http.ws_connect(gateway.call.url + path) as socket:
            await socket.receive_json()
            seen.append((await socket.receive_json())["value"])
    assert seen == [0, b64(b"0")]


async def _request_timeout(gateway: GatewayUnderTest) -> None:
    quick, slow = await _instances(gateway, _TIMEOUT, 0, 60_000, assign=1)
    await _answered_and_waiting(gateway, quick, slow, ("", ""))


async def _min_bytes(gateway: GatewayUnderTest) -> None:
    quick, slow = await _instances(gateway, "fetch.min.bytes", 1, 1_000_000)
    await _answered_and_waiting(gateway, quick, slow, ("timeout=60000", "timeout=60000"))


async def _offset_reset(gateway: GatewayUnderTest) -> None:
    first, last = await _instances(gateway, "auto.offset.reset", "earliest", "latest")
    assert await gateway.read(first)
    assert not await gateway.read(last, "timeout=2000")


async def _auto_commit(gateway: GatewayUnderTest) -> None:
    (commits,) = await _instances(gateway, "auto.commit.enable", "true")
    by_itself = await _committed(gateway, commits)
    (does_not,) = await _instances(gateway, "auto.commit.enable", "false")
    assert by_itself != await _committed(gateway, does_not)


CASES: dict[str, dict[str, Case]] = {
    "rest_proxy.produce_v2.produce_to_topic": produce("/topics/{written}"),
    "rest_proxy.produce_v2.produce_to_partition": produce("/topics/{written}/partitions/0"),
    "rest_proxy.produce_v3.produce_stream": {
        "partition_id": _parts,
        "key": _parts,
        "value": _parts,
        "timestamp": _parts,
        "headers": _headers,
    },
    "rest_proxy.consumer_routes.create": {
        "id": _name,
        "name": _name,
        "format": _instance_format,
        "auto.offset.reset": _offset_reset,
        "auto.commit.enable": _auto_commit,
        _TIMEOUT: _request_timeout,
        "fetch.min.bytes": _min_bytes,
    },
    "rest_proxy.consumer_routes.read_topic": {"timeout": _timeout, "max_bytes": _max_bytes},
    "rest_proxy.consumer_routes.read_records": {"timeout": _timeout, "max_bytes": _max_bytes},
    "rest_proxy.consumer_routes.commit": {"offsets": _commit},
    "rest_proxy.consumer_routes.list_committed": {"partitions": _commit},
    "rest_proxy.consumer_routes.subscribe": {"topics": _subscribe, "topic_pattern": _subscribe},
    "rest_proxy.consumer_routes.assign": {"partitions": _assign},
    "rest_proxy.consumer_routes.seek": {"offsets": _seek},
    "rest_proxy.consumer_routes.seek_to_beginning": {"partitions": _seek},
    "rest_proxy.consumer_routes.seek_to_end": {"partitions": _seek},
    "rest_proxy.topic_routes.list_messages": {
        name: differ(
            ("GET", f"{MESSAGES}?{other}", None, JSON, PLAIN),
            ("GET", f"{MESSAGES}?{one}", None, JSON, PLAIN),
        )
        for name, other, one in (
            ("offset", "offset=0&count=2", "offset=1&count=2"),
            ("count", "offset=0&count=1", "offset=0&count=2"),
        )
    },
    "topic_stream.topic_stream_routes.stream": {
        "from": _stream("from=latest", "from=earliest"),
        "offset": _stream("offset=1", "offset=2"),
        "offsets": _stream("offsets=0:1", "offsets=0:2"),
        "time": _stream("time=1700000001000", "time=1700000002000"),
        "group": _stream("group={group}", "group={group}-none"),
        "partition": _stream("partition=0", "partition=1"),
        "last_event_id": _stream("last_event_id=0:1,1:0", "last_event_id=0:2,1:0"),
        "format": _format,
    },
    # --- objects in bodies ---
    "bodies.RecordV2": {"key": _items, "value": _items, "partition": _items},
    "bodies.Header": {"name": _headers, "value": _headers},
    "bodies.Datum": {
        "data": _parts,
        "type": _parts,
        "schema": differ(
            _datum(type="AVRO", subject="{new}", schema=ODDS), _datum(type="AVRO", subject="{new}")
        ),
        "schema_id": differ(
            _datum(subject="rec", schema_id="{rec_id}"), _datum(subject="rec", schema_id="{key_id}")
        ),
        "schema_version": differ(
            _datum(subject="rec", schema_version=1), _datum(subject="rec", schema_version=9)
        ),
        "subject": differ(_datum(subject="rec", schema_version=1), _datum(schema_version=1)),
        "subject_name_strategy": differ(
            _datum(type="AVRO", schema=ODDS, subject_name_strategy="RECORD_NAME"),
            _datum(type="AVRO", schema='"int"', subject_name_strategy="RECORD_NAME"),
        ),
    },
    "bodies.PartitionOffset": {
        "topic": _assign,
        "partition": _assign,
        "offset": _commit,
        "metadata": _commit,
    },
}
