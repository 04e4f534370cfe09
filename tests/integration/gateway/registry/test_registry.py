"""The registry as Confluent's own client sees it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.rest_proxy.gateway_client import GatewayClient
from yarl import URL

BET = {
    "type": "record",
    "name": "Bet",
    "namespace": "book",
    "fields": [{"name": "market", "type": "string"}, {"name": "stake", "type": "long"}],
}
BET_2 = {**BET, "fields": [*BET["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
BET_BAD = {**BET, "fields": [*BET["fields"], {"name": "must", "type": "string"}]}
PRICE: dict[str, Any] = {
    "type": "object",
    "title": "Price",
    "properties": {"price": {"type": "number"}},
    "required": ["price"],
    "additionalProperties": False,
}


def avro(schema: Any) -> Schema:
    return Schema(json.dumps(schema), "AVRO")


def as_admin(url: str) -> dict[str, str]:
    """Return the settings of a client that may change the registry: its password is the stack's token."""
    token = GatewayClient.stack_token["Authorization"].removeprefix("Bearer ")
    return {"url": url, "basic.auth.user.info": f"admin:{token}"}


def code(call: Any, *args: Any, **more: Any) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*args, **more)
    return caught.value.http_status_code, caught.value.error_code


async def test_confluents_client_can_use_all_its_methods(url: str) -> None:
    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            first = client.register_schema("bets-value", avro(BET))
            assert client.register_schema("bets-value", avro(BET)) == first
            second = client.register_schema("bets-value", avro(BET_2))
            assert second == first + 1
            assert json.loads(client.get_schema(first).schema_str) == BET
            assert client.get_subjects() == ["bets-value"]
            assert client.get_versions("bets-value") == [1, 2]
            latest = client.get_latest_version("bets-value")
            assert (latest.version, latest.schema_id) == (2, second)
            assert client.get_version("bets-value", 1).schema_id == first
            assert client.lookup_schema("bets-value", avro(BET)).version == 1
            assert client.register_schema("other", avro(BET)) == first
            assert {(one.subject, one.version) for one in client.get_schema_versions(first)} == {
                ("bets-value", 1),
                ("other", 1),
            }
            assert client.test_compatibility("bets-value", avro(BET_BAD)) is False
            assert client.test_compatibility("new-value", avro(BET_BAD)) is True
            assert client.test_compatibility_all_versions("new-value", avro(BET_BAD)) is True
            assert code(client.register_schema, "bets-value", avro(BET_BAD)) == (409, 409)
            assert client.get_compatibility() == "BACKWARD"
            client.set_compatibility("bets-value", "FORWARD")
            assert client.get_compatibility("bets-value") == "FORWARD"
            assert client.test_compatibility("bets-value", avro(BET_BAD)) is True
            assert code(client.get_compatibility, "other") == (404, 40408)
            assert client.get_schema_types() == ["AVRO", "JSON"]

    await asyncio.to_thread(work)


async def test_errors_have_the_codes_of_confluents_registry(url: str) -> None:
    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            assert code(client.get_versions, "nobody") == (404, 40401)
            assert code(client.get_schema, 999) == (404, 40403)
            assert code(client.register_schema, "bad", Schema("{", "AVRO")) == (422, 42201)
            assert code(client.register_schema, "bad", Schema('{"type": "no"}', "JSON")) == (422, 42201)
            assert code(client.register_schema, "bad", Schema("syntax", "PROTOBUF")) == (422, 42201)
            assert code(client.set_compatibility, level="SIDEWAYS") == (422, 42203)
            client.register_schema("s", avro(BET))
            assert code(client.get_version, "s", 7) == (404, 40402)
            assert code(client.test_compatibility, "s", avro(BET), 7) == (404, 40402)
            assert code(client.test_compatibility, "nobody", avro(BET), 1) == (404, 40402)
            assert code(client.test_compatibility, "nobody", avro(BET), "x") == (422, 42202)
            assert code(client.delete_subject, "s", permanent=True)[1] == 40405
            assert client.delete_subject("s") == [1]
            assert client.test_compatibility("s", avro(BET_BAD)) is True
            assert code(client.get_versions, "s") == (404, 40401)
            assert code(client.delete_subject, "s") == (404, 40404)
            assert client.delete_subject("s", permanent=True) == [1]

    await asyncio.to_thread(work)


async def test_schemas_with_one_meaning_are_one_schema(url: str) -> None:
    short = {"type": "record", "name": "book.Bet", "fields": [{"name": "stake", "type": {"type": "long"}}]}
    long = {**short, "name": "Bet", "namespace": "book", "fields": [{"type": "long", "name": "stake"}]}

    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            first = client.register_schema("written", avro(short))
            assert client.register_schema("written", avro(long)) == first
            assert client.get_versions("written") == [1]
            assert client.lookup_schema("written", avro(long)).version == 1
            assert json.loads(client.get_schema(first).schema_str) == short
            number = client.register_schema("normal", avro(BET), normalize_schemas=True)
            normalized = json.loads(client.get_schema(number).schema_str)
            assert (normalized["name"], "namespace" in normalized) == ("book.Bet", False)
            assert client.lookup_schema("normal", avro(BET)).schema_id == number

    await asyncio.to_thread(work)


async def test_unsupported_field_of_a_schema_is_rejected_by_name(url: str) -> None:
    metadata = Metadata(properties=MetadataProperties({"owner": "me"}), tags=None, sensitive=None)

    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            ruled = Schema(json.dumps(BET), "AVRO", metadata=metadata)
            with pytest.raises(SchemaRegistryError, match="metadata is not supported"):
                client.register_schema("a", ruled)
            with pytest.raises(SchemaRegistryError, match="compatibilityGroup is not supported"):
                client.set_config(
                    "a", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="app")
                )
            assert client.get_subjects() == []

    await asyncio.to_thread(work)
    async with aiohttp.ClientSession() as http:
        for path, body, message in [
            ("/subjects/a/versions", {"schema": '"int"', "ruleSet": {"domainRules": []}}, "ruleSet"),
            ("/subjects/a/versions", {"schema": '"int"', "schematype": "JSON"}, '"schemaType"'),
            ("/subjects/a/versions?force=true", {"schema": '"int"'}, "force"),
            ("/subjects/a", {"schema": '"int"', "id": 5}, "id is not supported"),
        ]:
            async with http.post(url + path, json=body) as reply:
                assert reply.status == 400
                assert message in (await reply.json(content_type=None))["message"]


async def test_lists_have_pages_and_include_deleted_entries_on_request(url: str) -> None:
    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            client.set_compatibility(level="NONE")
            for subject in ("a", "b", "c", "d"):
                for kind in ("int", "string", "bytes"):
                    client.register_schema(subject, avro(kind))
            client.delete_version("a", 2)
            client.delete_subject("b")
            assert client.get_subjects() == ["a", "c", "d"]
            assert client.get_subjects(deleted=True) == ["a", "b", "c", "d"]
            assert client.get_subjects(deleted_only=True) == ["b"]
            assert client.get_subjects(deleted=True, deleted_only=True) == ["b"]
            assert client.get_subjects(limit=2) == ["a", "c"]
            assert client.get_subjects(offset=1, limit=1) == ["c"]
            assert client.get_subjects(offset=3) == []
            assert client.get_subjects(limit=0) == ["a", "c", "d"]
            assert client.get_versions("a") == [1, 3]
            assert client.get_versions("a", deleted=True) == [1, 2, 3]
            assert client.get_versions("a", deleted_only=True) == [2]
            assert client.get_versions("c", deleted_only=True) == []
            assert client.get_versions("b", deleted_only=True, offset=1) == [2, 3]
            assert client.get_versions("a", offset=1, limit=5) == [3]
            assert code(client.get_versions, "b") == (404, 40401)
            number = client.lookup_schema("c", avro("string")).schema_id
            assert client.get_subjects_by_schema_id(number) == ["c", "d"]
            assert client.get_subjects_by_schema_id(number, limit=1, offset=1) == ["d"]
            assert client.get_subjects_by_schema_id(number, deleted=True, limit=2) == ["a", "b"]
            uses = client.get_schema_versions(number, deleted=True, offset=1, limit=2)
            assert [(one.subject, one.version) for one in uses] == [("b", 2), ("c", 2)]

    await asyncio.to_thread(work)
    async with aiohttp.ClientSession() as http:
        for path, expected in [
            ("/subjects?deletedOnly=true", ["b"]),
            ("/subjects/a/versions?deletedOnly=true", [2]),
            ("/subjects/a/versions?deletedAsNegative=true", [1, -2, 3]),
        ]:
            async with http.get(url + path) as reply:
                assert await reply.json(content_type=None) == expected, path
        for path in ("/subjects?offset=-1", "/subjects?limit=x", "/subjects/a/versions?ofset=1"):
            async with http.get(url + path) as reply:
                assert reply.status == 400, path


async def test_avro_serializers_of_two_versions_read_each_other(url: str) -> None:
    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            context = SerializationContext("bets", MessageField.VALUE)
            old = AvroSerializer(client, json.dumps(BET))({"market": "m1", "stake": 5}, context)
            new = AvroSerializer(client, json.dumps(BET_2))(
                {"market": "m2", "stake": 6, "note": "x"}, context
            )
            assert old
            assert new
            assert (old[0], int.from_bytes(old[1:5], "big")) == (0, 1)
            read = AvroDeserializer(client, json.dumps(BET_2))
            assert read(old, context) == {"market": "m1", "stake": 5, "note": None}
            assert AvroDeserializer(client, json.dumps(BET))(new, context) == {"market": "m2", "stake": 6}

    await asyncio.to_thread(work)


async def test_json_serializers_read_each_other(url: str) -> None:
    def work() -> None:
        with SchemaRegistryClient(as_admin(url)) as client:
            context = SerializationContext("prices", MessageField.VALUE)
            written = JSONSerializer(json.dumps(PRICE), client)({"price": 1.5}, context)
            assert JSONDeserializer(json.dumps(PRICE), schema_registry_client=client)(written, context) == {
                "price": 1.5
            }
            wider = {**PRICE, "properties": {**PRICE["properties"], "currency": {"type": "string"}}}
            assert client.test_compatibility("prices-value", Schema(json.dumps(wider), "JSON"))
            client.register_schema("prices-value", Schema(json.dumps(wider), "JSON"))
            narrower = Schema(json.dumps({**wider, "required": ["price", "currency"]}), "JSON")
            assert code(client.register_schema, "prices-value", narrower) == (409, 409)

    await asyncio.to_thread(work)


async def test_concurrent_gateways_agree_on_ids_also_after_a_restart(start: Start) -> None:
    one, other = await start(), await start()
    async with aiohttp.ClientSession() as http:

        async def register(url: str, subject: str, name: str) -> int:
            body = {"schema": json.dumps({"type": "fixed", "name": name, "size": 4})}
            async with http.post(f"{url}/subjects/{subject}/versions", json=body) as reply:
                assert reply.status == 200, await reply.text()
                found: int = (await reply.json())["id"]
                return found

        # Both write at once, the same and different schemas: an id means one schema, whoever assigned it.
        requests = [(one if at % 2 else other, f"s{at}", f"f{at % 5}") for at in range(10)]
        ids = await asyncio.gather(*(register(*each) for each in requests))
        assert sorted(set(ids)) == [1, 2, 3, 4, 5]
        assert len({(found, name) for found, (_, _, name) in zip(ids, requests, strict=True)}) == 5
        third = await start()
        for url in (one, other, third):
            for found, (_, subject, name) in zip(ids, requests, strict=True):
                async with http.get(f"{url}/subjects/{subject}/versions/latest") as reply:
                    found_body = await reply.json()
                assert (found_body["id"], json.loads(found_body["schema"])["name"]) == (found, name)


async def test_id_of_a_deleted_schema_is_not_assigned_again(start: Start) -> None:
    url = await start()
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{url}/subjects/a/versions", json={"schema": '"int"'}) as reply:
            assert (await reply.json())["id"] == 1
        for permanent in ("false", "true"):
            async with http.delete(
                f"{url}/subjects/a?permanent={permanent}", headers=GatewayClient.stack_token
            ) as reply:
                assert await reply.json() == [1]
        async with http.get(f"{url}/schemas/ids/1") as reply:
            assert reply.status == 404
        async with http.post(f"{await start()}/subjects/b/versions", json={"schema": '"long"'}) as reply:
            assert (await reply.json())["id"] == 2


REGISTRY = "application/vnd.schemaregistry.v1+json"


@pytest.mark.parametrize(
    ("accept", "type"),
    [
        ("*/*", REGISTRY),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        (f"application/json;q=0.5, {REGISTRY}", REGISTRY),
        ("application/*", REGISTRY),
        ("text/html", None),
        ("application/vnd.kafka.v2+json", None),
    ],
)
async def test_response_has_an_accepted_type(url: str, accept: str, type: str | None) -> None:
    async with aiohttp.ClientSession() as http:
        body = {"schema": '"int"'}
        async with http.post(f"{url}/subjects/s/versions", json=body, headers={"Accept": accept}) as reply:
            found_body = await reply.json(content_type=None)
            assert (reply.status, found_body.get("error_code")) == ((200, None) if type else (406, 406))
            assert type is None or reply.headers["Content-Type"] == type
        # A request whose response would have no accepted type registers nothing.
        async with http.get(f"{url}/subjects") as reply:
            assert await reply.json(content_type=None) == (["s"] if type else [])


@pytest.mark.parametrize(
    ("type", "status"),
    [
        (REGISTRY, 200),
        ("application/vnd.schemaregistry+json; charset=utf-8", 200),
        ("application/json", 200),
        ("application/octet-stream", 200),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
    ],
)
async def test_body_of_unsupported_type_is_rejected(url: str, type: str, status: int) -> None:
    body = b'{"schema": "\\"int\\""}'
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/subjects/s/versions", data=body, headers={"Content-Type": type}) as reply,
    ):
        assert reply.status == status


async def test_subject_may_contain_any_character(url: str) -> None:
    async with aiohttp.ClientSession() as http:
        names = ["{a}", "a{b", "a/b", "a b", "100%", "a+b", "é", "a?b#c"]
        for name in names:
            path = URL(f"{url}/subjects/{quote(name, safe='')}", encoded=True)
            async with http.post(path / "versions", json={"schema": '"int"'}) as reply:
                assert reply.status == 200, name
            async with http.get(path / "versions") as reply:
                assert await reply.json(content_type=None) == [1], name
        async with http.get(f"{url}/subjects") as reply:
            assert await reply.json(content_type=None) == sorted(names)


def schema_with_namespace(space: str) -> bytes:
    """Return the body to register a schema with a namespace."""
    schema = {"type": "record", "name": "R", "namespace": space, "fields": []}
    return json.dumps({"schema": json.dumps(schema)}).encode()


async def test_invalid_request_gets_the_error_shape(url: str) -> None:
    async with aiohttp.ClientSession() as http:
        for method, path, body, status in [
            ("GET", "/nowhere", None, 404),
            ("PATCH", "/subjects", None, 405),
            ("POST", "/subjects/s/versions", b"", 400),
            ("POST", "/subjects/s/versions", b"{", 400),
            ("POST", "/subjects/s/versions", b"[]", 400),
            ("POST", "/subjects/s/versions", b"[" * 100_000, 400),
            ("POST", "/subjects/s/versions", b'{"schema": 5}', 422),
            ("POST", "/subjects/s/versions", schema_with_namespace("foo-bar-baz"), 422),
            ("POST", "/subjects/s/versions", schema_with_namespace("a..b"), 422),
            ("POST", "/subjects/s/versions", schema_with_namespace("a.b_2"), 200),
            ("POST", "/subjects/s/versions", schema_with_namespace(""), 409),
            ("POST", "/subjects/" + "s" * 300 + "/versions", b'{"schema": "\\"int\\""}', 422),
            ("GET", "/subjects?deleted=perhaps", None, 400),
            ("GET", "/schemas/ids/x", None, 404),
        ]:
            async with http.request(method, url + path, data=body) as reply:
                found_body = await reply.json(content_type=None)
                shape = {"id"} if status == 200 else {"error_code", "message"}
                assert (reply.status, set(found_body)) == (status, shape), (path, body, found_body)
