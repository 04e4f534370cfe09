"""Views on feeds whose records name their schema: Confluent's serializers, the stack's own registry."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.support.processes import suspend
from tests.support.stack import Feeding

import distributary

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "string"},
    {"name": "sport", "type": "string"},
    {"name": "stake", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
]
REGION = {"name": "region", "type": ["null", "string"], "default": None}
MISSING = b"\0\x7f\0\0\1"


def bet(*more: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Bet", "fields": [*FIELDS, *more]})


class Writer:
    """Writes a test's records by a version of the schema, registering it at the first."""

    def __init__(self, feeding: Feeding, registry: SchemaRegistryClient) -> None:
        self._feeding = feeding
        self._registry = registry
        self._place = SerializationContext(feeding.topic, MessageField.VALUE)

    def bytes(self, schema: str, **fields: Any) -> bytes:
        found = AvroSerializer(self._registry, schema)(fields, self._place)
        assert isinstance(found, bytes)
        return found

    def bet(self, schema: str, id: str, stake: str, sport: str = "football", **more: Any) -> None:
        value = self.bytes(schema, id=id, sport=sport, stake=Decimal(stake), **more)
        self._feeding.produce([(id, value)])


@pytest.fixture
def registry(feeding: Feeding) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": feeding.stack.addresses["gateway"]}) as client:
        yield client


async def letters(feeding: Feeding, count: int) -> dict[int, str]:
    found = feeding.stack.read(f"{feeding.topic}.dead-letters", count)
    status = [dict(one.headers() or ()) for one in found]
    return {
        int((one.key() or b"").rpartition(b"/")[2]): str(headers["distributary-reason"], "utf-8")  # type: ignore[arg-type]
        for one, headers in zip(found, status, strict=True)
    }


async def test_added_avro_field_does_not_stop_the_view(
    feeding: Feeding, registry: SchemaRegistryClient
) -> None:
    writer = Writer(feeding, registry)
    registry.register_schema(f"{feeding.topic}-value", Schema(bet(), "AVRO"))
    avro = {"format": "avro", "partitioned_by": "id"}
    view = await feeding.view(key="id", where="stake > 1.0", select="id, stake, region, sport s", feed=avro)
    # By another key: what every record adds shows that none was lost or came twice, over the internal topic.
    total = await feeding.view(
        key="sport",
        reduce="aggregate",
        aggregates={"bets": "count()", "total": "sum(stake)"},
        feed=avro,
    )
    for id, stake in (("a", "1.50"), ("b", "0.50"), ("c", "12345678901234567.10")):
        writer.bet(bet(), id, stake)
    rows: dict[str, Any] = {"a": {"id": "a", "stake": 1.5, "s": "football"}}
    rows["c"] = {"id": "c", "stake": 12345678901234567.10, "s": "football"}
    await feeding.rows_become(view, rows)
    async with distributary.subscribe(view, control=feeding.stack.addresses["control"]) as changes:
        assert str(changes.rows["a"]["stake"]) == "1.50", "numbers keep their digits"
        assert str(changes.rows["c"]["stake"]) == "12345678901234567.10"
        writer.bet(bet(REGION), "a", "2.50", region="EU")
        writer.bet(bet(), "d", "3.00")
        writer.bet(bet(REGION), "d", "4.00", region=None)
        async for change in changes:
            if change.key == "a":
                assert changes.rows["a"]["region"] == "EU"
            if str(changes.rows.get("d", {}).get("stake")) == "4.00":
                break
    rows["a"] |= {"stake": 2.5, "region": "EU"}
    rows["d"] = {"id": "d", "stake": 4.0, "s": "football"}
    await feeding.rows_become(view, rows)
    sums = {"football": {"sport": "football", "bets": 6, "total": 12345678901234578.60}}
    await feeding.rows_become(total, sums)
    for name in (view, total):
        status = await feeding.until(name, lambda status: status["status"] == "live" and not status["lag"])
        assert status["dead_letters"] == 0
    assert status["rekeyed"]


async def test_unreadable_avro_is_a_dead_letter_with_its_reason(
    feeding: Feeding, registry: SchemaRegistryClient
) -> None:
    writer = Writer(feeding, registry)
    writer.bytes(bet(), id="", sport="", stake=Decimal(0))
    whole = writer.bytes(json.dumps({"type": "record", "name": "Bet", "fields": FIELDS[:1]}), id="text")
    view = await feeding.view(reduce="latest", feed={"format": "avro", "partitions": 1})
    writer.bet(bet(), "a", "1.50")
    other = registry.register_schema(f"{feeding.topic}-other", Schema('{"type": "object"}', "JSON"))
    feeding.produce(
        [
            ("x", b'{"id": "plain"}'),
            ("x", MISSING + b"data"),
            ("x", b"\0" + other.to_bytes(4, "big") + b"{}"),
            ("x", whole[:-1]),
            ("x", MISSING + b"more"),
            *(("x", MISSING[:4] + bytes([n])) for n in range(2, 6)),
        ]
    )
    writer.bet(bet(), "b", "2.50")
    await feeding.rows_become(
        view,
        {
            "a": {"id": "a", "sport": "football", "stake": 1.5},
            "b": {"id": "b", "sport": "football", "stake": 2.5},
        },
    )
    reasons = await letters(feeding, 9)
    missing = int.from_bytes(MISSING[1:], "big")
    assert reasons[1].startswith("not framed")
    assert reasons[2] == reasons[5] == f"the schema registry has no schema {missing}"
    assert reasons[3] == f"the schema {other} is JSON, not AVRO"
    assert "is truncated" in reasons[4]
    await feeding.until(view, lambda status: status.get("dead_letters") == 9)


async def test_framed_json_feed_is_folded(feeding: Feeding, registry: SchemaRegistryClient) -> None:
    view = await feeding.view(where="n > 1", feed={"framed": True, "partitions": 1})
    schema = json.dumps({"title": "N", "type": "object", "properties": {"n": {"type": "number"}}})
    place = SerializationContext(feeding.topic, MessageField.VALUE)
    with_schema = JSONSerializer(schema, registry)
    feeding.produce([(f"k{n}", with_schema({"n": n}, place)) for n in (1, 2)])
    feeding.produce([("plain", b'{"n": 3}')])
    await feeding.rows_become(view, {"k2": {"n": 2}})
    assert "five bytes" in (await letters(feeding, 1))[2]


async def test_view_waits_while_the_registry_is_not_responding(
    feeding: Feeding, registry: SchemaRegistryClient
) -> None:
    writer = Writer(feeding, registry)
    pid = feeding.stack.stack.state.component("gateway").pid
    assert pid is not None
    name = f"v{uuid.uuid4().hex[:10]}"
    suspend(pid)
    try:
        view = await feeding.view(name=name, wait=False, feed={"format": "avro"})
        status = await feeding.until(view, lambda status: "schema registry" in (status.get("reason") or ""))
        assert status["status"] == "building"
        assert feeding.stack.addresses["gateway"] in status["reason"]
    finally:
        os.kill(pid, signal.SIGCONT)
    await feeding.live(view)
    writer.bet(bet(), "a", "1.50")
    await feeding.rows_become(view, {"a": {"id": "a", "sport": "football", "stake": 1.5}})


async def test_unusable_schema_stops_the_view(feeding: Feeding, registry: SchemaRegistryClient) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    registry.register_schema(f"{feeding.topic}-value", Schema(json.dumps(node), "AVRO"))
    endless = await feeding.view(wait=False, feed={"format": "avro"})
    rules: dict[str, Any] = {
        "reduce": "tests.support.fold_functions:add_action",
        "reduce_events": "tests.support.fold_functions:add_event",
    }
    other = Feeding(feeding.stack)
    events = await other.view(wait=False, events={"format": "avro"}, **rules)
    status = await feeding.until(endless, lambda status: status.get("status") == "stopped")
    assert "recursive reference in Avro schema" in status["reason"]
    status = await feeding.until(events, lambda status: status.get("status") == "stopped")
    assert "an event feed cannot have the format avro" in status["reason"]
    await other.drop()
