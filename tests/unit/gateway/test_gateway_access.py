"""The grants that the gateway's routes require."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.app_routes import route_names

from distributary.auth import Grant, Operator
from distributary.auth.token_issuer import create_stack_token, sign_token
from distributary.config import Auth, Config, Gateway, Publisher
from distributary.errors import Forbidden
from distributary.gateway.gateway_access import prefix_of, requirement_check
from distributary.gateway.gateway_app import all_routes, make_app
from distributary.httpd.authorization import Requirement
from distributary.model.feed import Feed
from distributary.store.memory_store import MemoryStore

AUTH = Auth(hmac_secret="a secret of the tests, long enough for HS256")
CONFIG = Config(
    auth=AUTH,
    feeds=(Feed("odds", "sportsbook.odds"),),
    publisher=Publisher(origins=("https://page.example.com",)),
    gateway=Gateway(origins=("https://app.example.com",)),
)


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(make_app(CONFIG, MemoryStore().reader))) as found:
        yield found


def bearer(user: str, **claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {sign_token(AUTH, user, claims, 60)[0]}"}


def token(**claims: Any) -> dict[str, str]:
    return bearer("ann", **claims)


def test_application_serves_the_routes_of_its_table() -> None:
    assert route_names(make_app(Config(), MemoryStore().reader)) == {route.name for route in all_routes()}


def test_route_requires_what_fits_its_method_and_path() -> None:
    for route in all_routes():
        name, requirement = route.name, route.requirement
        if "/consumers" in name:
            assert requirement is Requirement.GROUP, name
        elif name.startswith(("DELETE", "PUT")):
            assert requirement is Requirement.OPERATE, name
        elif name.startswith("POST /topics") or (name.startswith("POST") and name.endswith("/records")):
            assert requirement is Requirement.PRODUCE, name
        elif "stream" in name or name.endswith("/messages"):
            assert requirement is Requirement.CONSUME, name
        assert requirement is not Requirement.ADMIN, name


async def test_request_without_token_is_rejected_except_for_health(client: TestClient[Any, Any]) -> None:
    for route in all_routes():
        method = route.method
        path = route.path.replace("{topic}", "t").replace("{partition}", "0").replace("{id}", "1")
        for part in ("subject", "version", "group", "instance", "cluster"):
            path = path.replace("{" + part + "}", "x")
        if route.requirement is Requirement.PUBLIC:
            continue
        for address in (path, f"{path}/"):
            reply = await client.request(method, address)
            assert reply.status == 401, address
            assert (await reply.json())["error_code"] == 40101
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await client.get("/healthz")).status == 200


FORBIDDEN = [
    ("GET", "/topics/u", {"produce": ["t"]}),
    ("GET", "/v1/topics/t/stream", {"produce": True}),
    ("GET", "/v1/topics/t/stream/", {"consume": ["u"]}),
    ("GET", "/topics/t/partitions/0/messages?offset=0", {"produce": True}),
    ("GET", "/brokers", {"produce": True, "consume": True}),
    ("POST", "/topics/t", {"publish": True, "consume": True}),
    ("POST", "/consumers/bob", {"consume": True}),
    ("GET", "/consumers/bob/instances/x/records", {"consume": True}),
    ("PUT", "/config", {"register": True, "operator": "read"}),
    ("PUT", "/config/t-value", {"register": True}),
    ("DELETE", "/subjects/t-value", {"register": True, "operator": "read"}),
    ("POST", "/subjects/t-value/versions", {"produce": ["t"], "subjects": True}),
    ("GET", "/subjects/t-value/versions", {"produce": ["u"]}),
    ("POST", "/compatibility/subjects/t-value/versions", {"register": ["u-value"]}),
]


@pytest.mark.parametrize(("method", "path", "claims"), FORBIDDEN, ids=str)
async def test_token_that_does_not_name_the_target_is_forbidden(
    client: TestClient[Any, Any], method: str, path: str, claims: dict[str, Any]
) -> None:
    reply = await client.request(method, path, headers=token(**claims))
    assert (reply.status, (await reply.json())["error_code"]) == (403, 40301)


async def test_any_token_reads_schema_types(client: TestClient[Any, Any]) -> None:
    assert (await client.get("/schemas/types", headers=token())).status == 200


async def test_instance_of_another_user_is_not_found(client: TestClient[Any, Any]) -> None:
    """Both may join the group, but each uses only its own instances."""
    ann, bob = (token(consume=True, groups=["g"]), bearer("bob", consume=True, groups=["g"]))
    made = await (await client.post("/consumers/g", headers=ann, json={"name": "i"})).json()
    assert made["instance_id"] == "i"
    one = "/consumers/g/instances/i"
    for method, path in (("GET", f"{one}/subscription"), ("DELETE", one), ("POST", f"{one}/offsets")):
        reply = await client.request(method, path, headers=bob)
        assert (await reply.json())["error_code"] == 40403
    assert (await client.delete(one, headers=ann)).status == 204


async def test_open_gateway_accepts_changes_only_with_the_stacks_token(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    shown = {"Authorization": f"Bearer {create_stack_token(tmp_path)}"}
    async with TestClient(TestServer(make_app(config, MemoryStore().reader))) as client:
        for method, path in (
            ("PUT", "/config"),
            ("PUT", "/config/t-value"),
            ("DELETE", "/config"),
            ("DELETE", "/subjects/t-value"),
            ("DELETE", "/subjects/t-value/versions/1"),
            ("POST", "/topics/distributary.commands"),
            ("GET", "/v1/topics/distributary.commands/stream"),
            ("POST", "/topics/__consumer_offsets"),
        ):
            reply = await client.request(method, path)
            assert reply.status == 403, path
            assert "token" in (await reply.json())["message"]
        # With the token it is rejected for another reason.
        assert (await client.put("/config", headers=shown, data="{}")).status == 415
        assert (await client.get("/schemas/types")).status == 200


@pytest.mark.parametrize(
    ("names", "topic", "good"),
    [
        ((), "sportsbook.odds", False),
        (("odds",), "sportsbook.odds", False),
        (("sportsbook.odds",), "sportsbook.odds", True),
        (("*",), "anything", True),
        (("*", "distributary.commands"), "distributary.commands", False),
        (("*", "distributary.schemas"), "distributary.schemas", False),
        (("*", "distributary.rekeyed.x"), "distributary.rekeyed.x", False),
        (("*", "__consumer_offsets"), "__consumer_offsets", False),
        (("*",), "_schemas", False),
        (("_schemas",), "_schemas", True),
    ],
)
def test_internal_topics_require_an_admin(names: tuple[str, ...], topic: str, good: bool) -> None:
    check = requirement_check(CONFIG)
    for need in (Requirement.PRODUCE, Requirement.CONSUME):
        grant = Grant("ann", produce=names, consume=names)
        if good:
            check(grant, need, {"topic": topic})
        else:
            with pytest.raises(Forbidden):
                check(grant, need, {"topic": topic})
        check(Grant("root", operator=Operator.ADMIN), need, {"topic": topic})


async def test_request_of_another_site_is_rejected(client: TestClient[Any, Any]) -> None:
    for origin in ("https://evil.example.com", "https://page.example.com"):  # the latter may subscribe
        reply = await client.post("/topics/t", headers={"Origin": origin})
        assert (reply.status, (await reply.json())["error_code"]) == (403, 40301)
    reply = await client.get("/subjects", headers={"Host": "evil.example:8082"})
    assert (reply.status, (await reply.json())["error_code"]) == (421, 42101)
    allowed = {"Origin": "https://app.example.com"}
    reply = await client.options("/topics/t", headers=allowed)
    assert (reply.status, reply.headers["Access-Control-Allow-Origin"]) == (204, allowed["Origin"])
    reply = await client.get("/schemas/types", headers=token() | allowed)
    assert reply.headers["Access-Control-Allow-Origin"] == allowed["Origin"]


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("", ""),
        ("https://k.example.com", ""),
        ("https://k.example.com/", ""),
        ("http://k.example.com/a/b/", "/a/b"),
    ],
)
def test_prefix_is_the_path_of_the_advertised_url(url: str, prefix: str) -> None:
    assert prefix_of(Config(gateway=Gateway(advertised_url=url))) == prefix


async def test_prefixed_path_requires_the_same_grants() -> None:
    config = Config(auth=AUTH, gateway=Gateway(advertised_url="http://k.example.com/rest"))
    async with TestClient(TestServer(make_app(config, MemoryStore().reader))) as client:
        for path in ("/rest/topics/_x", "/rest/rest/topics/_x", "/rest/brokers"):
            assert (await client.get(path)).status == 401
            assert (await client.get(path, headers=token(produce=True))).status == 403
        for path in ("/schemas/types", "/schemas/types/", "/rest/schemas/types", "/rest/schemas/types/"):
            assert (await client.get(path, headers=token())).status == 200
        for path in ("", "/", "/rest", "/rest/"):
            assert (await client.get(path)).status == 200, path


async def test_audit_log_has_rejected_requests(tmp_path: Path) -> None:
    config = replace(CONFIG, data_dir=tmp_path)
    async with TestClient(TestServer(make_app(config, MemoryStore().reader))) as client:
        await client.get("/schemas/types", headers=token())
        await client.post("/topics/t", headers=token(consume=True))
        await client.put("/config", headers=token(operator="operate"), data="{}")
    found = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [
        (one["component"], one["user"], one["action"], one["target"], one["result"]) for one in found
    ] == [
        ("gateway", "ann", "POST /topics/{topic}", "t", "refused"),
        ("gateway", "ann", "PUT /config", "", "failed"),
    ]


async def test_wrong_method_lists_the_allowed_ones(client: TestClient[Any, Any]) -> None:
    reply = await client.request("PATCH", "/subjects", headers=token())
    assert (reply.status, (await reply.json())["error_code"]) == (405, 405)
    assert reply.headers["Allow"] == "GET, HEAD"
