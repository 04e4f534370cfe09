"""Cases of the REST proxy and of streams: see `cases`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.integration.gateway.cases import AVRO, ODDS, PLAIN, V2, V3, Ask, Case, World, differ
from tests.integration.gateway.rest_proxy.calls import JSON, Reply, b64

_TIMEOUT = "consumer.request.timeout.ms"
MESSAGES = "/topics/{topic}/partitions/0/messages"


def produce(path: str) -> dict[str, Case]:
    """The fields of a body of version 2."""
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


async def _instances(world: World, name: str, *values: Any, assign: int = 0) -> list[str]:
    """Instances that differ in one setting."""
    return [await world.instance(assign=assign, **{name: value}) for value in values]


async def _answered_and_waiting(world: World, answered: str, waiting: str, query: tuple[str, str]) -> None:
    """Check that the read of one instance is answered, and that of the other still waits after as long.

    How long an answer takes is for the machine to say. ``query`` is that of each.
    """
    began = time.monotonic()
    reply = await world.ask("GET", f"{answered}/records?{query[0]}", accept=PLAIN)
    took = time.monotonic() - began
    assert (reply.status, took < 30) == (200, True), "no read waits for a minute here"
    reading = asyncio.ensure_future(world.ask("GET", f"{waiting}/records?{query[1]}", accept=PLAIN))
    done, _ = await asyncio.wait([reading], timeout=1.0 + took)
    reading.cancel()
    assert not done, "it does not wait"


async def _committed(world: World, base: str) -> Any:
    """What the instance's group has committed after a read and the instance's end."""
    await world.read(base)
    await world.ask("DELETE", base)
    group = base.split("/consumers/")[1].split("/")[0]
    again = await world.instance(group)
    return (await _ask_committed(world, again, 0)).body


async def _ask_committed(world: World, base: str, partition: int) -> Reply:
    place = {"topic": "{topic}", "partition": partition}
    return await world.ask("GET", f"{base}/offsets", {"partitions": [place]}, V2)


async def _timeout(world: World) -> None:
    quick, slow = await world.instance(assign=1), await world.instance(assign=1)
    await _answered_and_waiting(world, quick, slow, ("timeout=1", "timeout=60000"))


async def _max_bytes(world: World) -> None:
    base = await world.instance()
    assert (len(await world.read(base, "timeout=20000&max_bytes=1")), len(await world.read(base)) > 1) == (
        1,
        True,
    )


async def _name(world: World) -> None:
    for name in ("id", "name"):
        said = await world.ask("POST", "/consumers/{new}", {name: f"my-{name}"}, V2)
        assert said.body["instance_id"] == f"my-{name}"


async def _instance_format(world: World) -> None:
    seen = [await world.read(await world.instance(format=one), format=one) for one in ("json", "binary")]
    assert seen[0][0] != seen[1][0], seen


async def _commit(world: World) -> None:
    base = await world.instance()
    for offset, note in ((1, "one"), (3, "three")):
        body = {"offsets": [{"topic": "{topic}", "partition": 0, "offset": offset, "metadata": note}]}
        assert (await world.ask("POST", f"{base}/offsets", body, V2)).status == 200
        (kept,) = (await _ask_committed(world, base, 0)).body["offsets"]
        assert (kept["partition"], kept["offset"], kept["metadata"]) == (0, offset + 1, note)
    assert (await _ask_committed(world, base, 1)).body == {"offsets": []}


async def _subscribe(world: World) -> None:
    for body in ({"topics": ["{topic}"]}, {"topic_pattern": "{topic}.?"}):
        base = await world.instance(assign=None)
        assert (await world.ask("GET", f"{base}/subscription")).body == {"topics": []}
        assert (await world.ask("POST", f"{base}/subscription", body, V2)).status == 204
        assert (await world.ask("GET", f"{base}/subscription")).body == {"topics": [world.names["topic"]]}


async def _seek(world: World) -> None:
    base, place = await world.instance(), {"topic": "{topic}", "partition": 0}
    await world.ask("POST", f"{base}/positions/end", {"partitions": [place]}, V2)
    assert await world.read(base, "timeout=300") == []
    await world.ask("POST", f"{base}/positions/beginning", {"partitions": [place]}, V2)
    first = (await world.read(base))[0]
    await world.ask("POST", f"{base}/positions", {"offsets": [{**place, "offset": 1}]}, V2)
    assert (await world.read(base))[0] != first
    other = {"partitions": [{**place, "partition": 1}]}
    assert (await world.ask("POST", f"{base}/positions/end", other, V2)).code == 40903


async def _assign(world: World) -> None:
    for number in (0, 1):
        base = await world.instance(assign=number)
        said = await world.ask("GET", f"{base}/assignments")
        assert said.body == {"partitions": [{"topic": world.names["topic"], "partition": number}]}


async def _headers(world: World) -> None:
    sent = [{"name": "h", "value": b64(b"v")}]
    assert (await world.written(headers=sent, value={"type": "JSON", "data": 1})).headers() == [("h", b"v")]


async def _parts(world: World) -> None:
    key, value = {"type": "STRING", "data": "k"}, {"type": "JSON", "data": [1]}
    message = await world.written(key=key, value=value, partition_id=1, timestamp=1_700_000_000_000)
    assert (message.key(), message.value(), message.partition()) == (b"k", b"[1]", 1)
    assert message.timestamp()[1] == 1_700_000_000_000


async def _items(world: World) -> None:
    body = {"records": [{"key": "k", "value": {"a": 1}, "partition": 1}]}
    (said,) = (await world.ask("POST", "/topics/{written}", body, PLAIN)).body["offsets"]
    got = await world.ask(
        "GET", f"/topics/{{written}}/partitions/1/messages?offset={said['offset']}", accept=PLAIN
    )
    assert [(one["key"], one["value"]) for one in got.body] == [("k", {"a": 1})]


def _datum(**more: Any) -> Ask:
    return "POST", V3, {"value": {"data": {}, **more}}


def _stream(*queries: str) -> Case:
    async def run(world: World) -> None:
        seen = [await world.positions(query) for query in queries]
        assert seen[0] != seen[1], (queries, seen)

    return run


async def _format(world: World) -> None:
    seen = []
    for format in ("json", "binary"):
        path = world.fill(f"/v1/topics/{{topic}}/stream?from=earliest&partition=0&format={format}")
        async with world.http.ws_connect(world.call.url + path) as socket:
            await socket.receive_json()
            seen.append((await socket.receive_json())["value"])
    assert seen == [0, b64(b"0")]


async def _request_timeout(world: World) -> None:
    quick, slow = await _instances(world, _TIMEOUT, 0, 60_000, assign=1)
    await _answered_and_waiting(world, quick, slow, ("", ""))


async def _min_bytes(world: World) -> None:
    quick, slow = await _instances(world, "fetch.min.bytes", 1, 1_000_000)
    await _answered_and_waiting(world, quick, slow, ("timeout=60000", "timeout=60000"))


async def _offset_reset(world: World) -> None:
    first, last = await _instances(world, "auto.offset.reset", "earliest", "latest")
    assert await world.read(first)
    assert not await world.read(last, "timeout=2000")


async def _auto_commit(world: World) -> None:
    (commits,) = await _instances(world, "auto.commit.enable", "true")
    by_itself = await _committed(world, commits)
    (does_not,) = await _instances(world, "auto.commit.enable", "false")
    assert by_itself != await _committed(world, does_not)


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
    # --- what stands in bodies ---
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
