"""Untrusted schemas in the gateway: others are served meanwhile."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.clock import LIMIT
from tests.support.inline_registry import InlineSchemaLog

from distributary.config import Config
from distributary.gateway.gateway_app import make_app
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.gateway.registry.schema_catalog import SchemaCatalog
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.store.memory_store import MemoryStore

Client = TestClient[Any, Any]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    config = Config()
    app = make_app(replace(config, gateway=replace(config.gateway, schema_timeout=0.5)), MemoryStore().reader)
    app[SCHEMA_LOG] = cast(SchemaLog, InlineSchemaLog())
    async with TestClient(TestServer(app)) as test_client:
        yield test_client


def billion_laughs(levels: int) -> dict[str, Any]:
    """Definitions each of which refers twice to the next."""
    chain: dict[str, Any] = {
        f"l{at}": {"allOf": [{"$ref": f"#/definitions/l{at + 1}"}] * 2} for at in range(levels)
    }
    return {"$ref": "#/definitions/l0", "definitions": {**chain, f"l{levels}": {"type": "integer"}}}


async def register(client: Client, subject: str, schema: Any, kind: str = "JSON") -> tuple[int, Any]:
    body = json.dumps({"schema": json.dumps(schema), "schemaType": kind}).encode()
    async with client.post(f"/subjects/{subject}/versions", data=io.BytesIO(body)) as reply:
        return reply.status, await reply.json()


async def compare(client: Client, subject: str, schema: Any, kind: str = "JSON") -> tuple[int, Any]:
    body = {"schema": json.dumps(schema), "schemaType": kind}
    address = f"/compatibility/subjects/{subject}/versions?verbose=true"
    async with client.post(address, json=body) as reply:
        return reply.status, await reply.json()


EVIL: dict[str, tuple[Any, Any]] = {
    "references": ({"enum": [1]}, billion_laughs(40)),
    "pattern": ({"enum": ["a" * 60 + "!"]}, {"pattern": "^(a+)+$"}),
    "patterns to compile": ({}, {"allOf": [{"pattern": f"(?i)[a-\uffff]{at}"} for at in range(800)]}),
}


@pytest.mark.parametrize("name", EVIL)
async def test_slow_schema_is_rejected_while_others_are_served(client: Client, name: str) -> None:
    first, second = EVIL[name]
    assert await register(client, "s", first) == (200, {"id": 1})
    comparing = asyncio.create_task(compare(client, "s", second))
    served = 0
    async with asyncio.timeout(30 * LIMIT):
        while not comparing.done():
            async with client.get("/subjects") as reply:
                assert await reply.json() == ["s"]
            served += 1
    status, body = await comparing
    assert status == 422
    assert "the schema takes too long to check: more than 0.5 s" in body["message"]
    assert served > 20


@pytest.mark.parametrize(
    ("schema", "kind", "why"),
    [
        ({"description": "x" * (1 << 20)}, "JSON", "larger than 1024 KiB"),
        ({"allOf": [{"$ref": "#/definitions/a"}] * 5_001, "definitions": {"a": {}}}, "JSON", "references"),
        (json.loads('{"not":' * 300 + "{}" + "}" * 300), "JSON", "nested too deeply"),
        (json.loads('{"type":"array","items":' * 300 + '"int"' + "}" * 300), "AVRO", "nested too deeply"),
    ],
)
async def test_schema_that_is_too_large_is_rejected(client: Client, schema: Any, kind: str, why: str) -> None:
    status, body = await register(client, "s", schema, kind)
    assert status == 422
    assert why in body["message"]


async def test_path_cannot_forge_log_lines(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: InlineSchemaLog) -> SchemaCatalog:
        raise RuntimeError

    monkeypatch.setattr(InlineSchemaLog, "caught_up", fail)
    async with client.get("/subjects/a%0AERROR forged/versions") as reply:
        assert reply.status == 500
    (line,) = [one.getMessage() for one in caplog.records if "failed" in one.getMessage()]
    assert line == "GET /subjects/a%0AERROR%20forged/versions failed"


async def test_response_forbids_sniffing_and_scripts(client: Client) -> None:
    for path in ("/subjects", "/nothing"):
        async with client.get(path) as reply:
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]


async def test_slow_schemas_of_one_user_end_in_a_retriable_error(client: Client) -> None:
    await register(client, "s", {"enum": [1]})
    comparisons = [asyncio.create_task(compare(client, "s", billion_laughs(40))) for _ in range(20)]
    done, waiting = await asyncio.wait(comparisons, timeout=10 * LIMIT, return_when=asyncio.FIRST_COMPLETED)
    assert 503 in {task.result()[0] for task in done}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_schemas_are_registered_and_compared(client: Client) -> None:
    patterned = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[A-Z]{3}$"}}}
    assert await register(client, "s", patterned) == (200, {"id": 1})
    assert await register(client, "s", patterned) == (200, {"id": 1})
    status, body = await compare(client, "s", {"type": "array"})
    assert (status, body["is_compatible"]) == (200, False)
    assert (await register(client, "s", {"type": "array"}))[0] == 409
    assert (await register(client, "s", {"pattern": "("}))[0] == 422
