"""A schemas topic that Confluent's registry wrote: interpreted as there, or ignored with a warning."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import JSON, GatewayClient, media
from tests.support.stack import Feeding, RunningStack

from distributary.config import Config
from distributary.gateway.registry import schemas_topic_records
from distributary.kafka import librdkafka
from distributary.kafka.topics import ensure_topic

MONEY = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
BET = {"type": "record", "name": "Bet", "fields": [{"name": "stake", "type": "Money"}]}
REFERENCE = {"name": "Money", "subject": "money", "version": 1}
RULES = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
METADATA = {"properties": {"owner": "me"}}


def key(kind: str, **more: Any) -> dict[str, Any]:
    return {"keytype": kind, **more, "magic": 1 if kind == "SCHEMA" else 0}


def schema(subject: str, version: int, id: int, document: Any, **more: Any) -> tuple[Any, Any]:
    text = document if isinstance(document, str) else json.dumps(document)
    value = {"subject": subject, "version": version, "id": id, "schema": text, "deleted": False, **more}
    return key("SCHEMA", subject=subject, version=version), value


RECORDS: list[tuple[Any, Any]] = [
    (key("NOOP"), None),
    (key("CONTEXT", tenant="default", context="."), {"tenant": "default", "context": "."}),
    (key("CONFIG"), {"compatibilityLevel": "FULL"}),
    (key("CONFIG", subject="plain"), {"subject": "plain", "alias": "other", "normalize": True}),
    schema("plain", 1, 1, '"int"', md5="x"),
    schema(":.staging:plain", 1, 1, '"string"'),
    schema(":.:default", 1, 2, '"long"'),
    schema("gone", 1, 3, '"float"'),
    schema("gone", 2, 4, '"double"'),
    (key("DELETE_SUBJECT", subject="gone"), {"subject": "gone", "version": 2}),
    schema("back", 1, 3, '"float"'),
    (key("DELETE_SUBJECT", subject="back"), {"subject": "back", "version": 1}),
    schema("back", 2, 4, '"double"'),
    schema("money", 1, 5, MONEY),
    schema("TOPIC-value", 1, 6, BET, schemaType="AVRO", references=[REFERENCE]),
    schema("ruled", 1, 7, '"bytes"', metadata=METADATA, ruleSet=RULES),
    schema("proto", 1, 8, 'syntax = "proto3"; message M {}', schemaType="PROTOBUF"),
    schema("torn", 1, 40, "{", schemaType="AVRO"),
    schema("stolen", 1, 1, '"boolean"'),
    (key("MODE", subject="frozen"), {"subject": "frozen", "mode": "READONLY"}),
    schema("frozen", 1, 9, '"null"'),
    (key("MODE", subject=":.staging:"), {"mode": "READONLY"}),
    (key("MODE", subject="arriving"), {"subject": "arriving", "mode": "IMPORT"}),
]


@pytest.fixture
async def call(
    start: Start, settings: Config, stack: RunningStack, feeding: Feeding
) -> AsyncIterator[GatewayClient]:
    topic = settings.gateway.schemas_topic
    ensure_topic(stack.admin(), topic, 1, {"cleanup.policy": "compact"})
    producer = librdkafka.producer(stack.config.kafka)
    for pair in RECORDS:
        record_key, value = (json.dumps(one).replace("TOPIC", feeding.topic) for one in pair)
        producer.produce(topic, None if value == "null" else value, record_key, 0)
    assert producer.flush(20) == 0
    async with aiohttp.ClientSession() as http:
        yield GatewayClient(await start(), http)


async def get(call: GatewayClient, path: str) -> Any:
    reply = await call("GET", path)
    return reply.body if reply.status == 200 else reply.code


async def register(call: GatewayClient, subject: str, text: str) -> Any:
    reply = await call("POST", f"/subjects/{subject}/versions", {"schema": text}, type=JSON)
    return reply.body["id"] if reply.status == 200 else reply.code


async def test_subjects_ids_and_deletions_are_interpreted(
    call: GatewayClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = await get(call, "/subjects")
    live = ["back", "default", "frozen", "money", "plain", "proto", "ruled", "torn"]
    assert [name for name in found if not name.endswith("-value")] == live
    assert await get(call, "/subjects?deletedOnly=true") == ["gone"]
    assert await get(call, "/subjects/gone/versions") == 40401
    assert await get(call, "/subjects/back/versions") == [2]
    assert await get(call, "/subjects/back/versions?deletedOnly=true") == [1]
    # Neither another context nor a record with a used id changes the meaning of an id.
    assert (await get(call, "/schemas/ids/1"))["schema"] == '"int"'
    assert (await get(call, "/schemas/ids/1?subject=plain"))["schema"] == '"int"'
    assert await get(call, "/schemas/ids/1?subject=:.staging:plain") == 42208
    assert await get(call, "/subjects/:.staging:plain/versions") == 42208
    assert await register(call, ":.staging:plain", '"int"') == 42208
    assert await get(call, "/subjects/:.:default/versions") == [1]
    assert await get(call, "/subjects?subjectPrefix=:*:de") == ["default"]
    assert await get(call, "/subjects?subjectPrefix=:.staging:") == 42208
    for warning in ("'.staging'", "'alias', 'normalize'", "its id 1 is taken"):
        assert warning in caplog.text
    assert await get(call, "/config") == {"compatibilityLevel": "FULL"}
    assert await get(call, "/config/plain") == 40408
    assert await register(call, "new", '{"type": "fixed", "name": "f", "size": 4}') == 41


async def test_foreign_fields_of_a_schema_are_shown(call: GatewayClient, feeding: Feeding) -> None:
    shown = await get(call, f"/subjects/{feeding.topic}-value/versions/latest")
    assert (shown["references"], json.loads(shown["schema"])) == ([REFERENCE], BET)
    assert (await get(call, "/schemas/ids/6"))["references"] == [REFERENCE]
    assert await get(call, "/subjects/money/versions/1/referencedby") == [6]
    assert (await call("DELETE", "/subjects/money")).code == 42206
    ruled = await get(call, "/schemas/ids/7")
    assert (ruled["metadata"], ruled["ruleSet"]) == (METADATA, RULES)
    proto = await get(call, "/schemas/ids/8")
    assert (proto["schemaType"], proto["schema"]) == ("PROTOBUF", 'syntax = "proto3"; message M {}')
    # A deletion keeps the other fields of the record.
    assert (await call("DELETE", "/subjects/ruled/versions/1")).body == 1
    assert (await get(call, "/subjects/ruled/versions/1?deleted=true"))["ruleSet"] == RULES


async def test_unsupported_change_is_rejected(
    call: GatewayClient, stack: RunningStack, feeding: Feeding
) -> None:
    assert await register(call, "ruled", '"string"') == 42205
    assert await register(call, f"{feeding.topic}-value", json.dumps(MONEY)) == 409
    assert await register(call, "proto", '"int"') == 409
    assert await get(call, "/mode/frozen") == {"mode": "READONLY"}
    assert await get(call, "/mode") == {"mode": "READWRITE"}
    assert await get(call, "/mode/plain") == 40409
    assert await get(call, "/mode/plain?defaultToGlobal=true") == {"mode": "READWRITE"}
    assert await register(call, "frozen", '"null"') == 9
    assert await register(call, "frozen", '"int"') == 42205
    assert await register(call, "arriving", '"int"') == 42205
    assert (await call("DELETE", "/subjects/frozen")).code == 42205
    assert (await call("PUT", "/config/frozen", {"compatibility": "NONE"}, type=JSON)).code == 42205
    ensure_topic(stack.admin(), feeding.topic, 1)
    body = {"records": [{"value": {"stake": {"cents": 1}}}], "value_schema_id": 6}
    refused = await call("POST", f"/topics/{feeding.topic}", body, type=media("avro"))
    assert (refused.code, "Money" in refused.body["message"]) == (42203, True)


async def test_foreign_settings_survive_a_change(
    call: GatewayClient, settings: Config, stack: RunningStack
) -> None:
    assert (await call("PUT", "/config/plain", {"compatibility": "NONE"}, type=JSON)).status == 200
    assert await get(call, "/config/plain") == {"compatibilityLevel": "NONE"}
    last = stack.read(settings.gateway.schemas_topic, len(RECORDS) + 1)[-1]
    expected = {"subject": "plain", "alias": "other", "normalize": True, "compatibilityLevel": "NONE"}
    assert schemas_topic_records.parse_record(last.key(), last.value()) == schemas_topic_records.Setting(
        "CONFIG", "plain", expected
    )
