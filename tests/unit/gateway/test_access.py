"""Who may do what at the gateway: every address has its need, and a token is asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from distributary.config import Config, Gateway, Permit, Publisher
from distributary.docs.rest import gateway_app, routes
from distributary.errors import Forbidden
from distributary.gateway.access import NEEDS, Need, demand, prefix_of
from distributary.gateway.app import make_app
from distributary.model.feed import Feed
from distributary.permit import Grant
from distributary.permit.making import make_token
from distributary.store.memory import MemoryStore

PERMIT = Permit(hmac_secret="a secret of the tests, long enough for HS256")
CONFIG = Config(
    permit=PERMIT,
    feeds=(Feed("odds", "sportsbook.odds"),),
    publisher=Publisher(origins=("https://app.example.com",)),
)


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(make_app(CONFIG, MemoryStore().reader.revoked))) as found:
        yield found


def token(**claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {make_token(PERMIT, 'ann', claims, 60)[0]}"}


def test_every_address_that_is_not_for_admins_exists() -> None:
    assert set(NEEDS) <= {name for name, _ in routes(gateway_app())}


def test_what_changes_or_reads_the_cluster_is_for_admins() -> None:
    for name, _ in routes(gateway_app()):
        need = NEEDS.get(name, Need.ADMIN)
        if name.startswith(("DELETE", "PUT")) or "/consumers" in name or "stream" in name:
            assert need is Need.ADMIN, name
        elif name.startswith("POST /topics") or name.endswith("/records"):
            assert need is Need.PUBLISH, name


async def test_without_a_token_only_health_answers(client: TestClient[Any, Any]) -> None:
    for name, _ in routes(gateway_app()):
        method, _, path = name.partition(" ")
        path = path.replace("{topic}", "t").replace("{partition}", "0").replace("{id}", "1")
        for part in ("subject", "version", "group", "instance", "cluster"):
            path = path.replace("{" + part + "}", "x")
        if NEEDS.get(name) is Need.OPEN:
            continue
        for address in (path, f"{path}/"):
            reply = await client.request(method, address)
            assert reply.status == 401, address
            assert (await reply.json())["error_code"] == 40101
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await client.get("/healthz")).status == 200


async def test_a_token_without_admin_does_not_consume(client: TestClient[Any, Any]) -> None:
    for path in ("/topics", "/topics/", "/v1/topics/t/stream", "/v1/topics/t/stream/", "/brokers"):
        reply = await client.get(path, headers=token(publish=True))
        assert (reply.status, (await reply.json())["error_code"]) == (403, 40301)
    assert (await client.get("/schemas/types", headers=token())).status == 200


@pytest.mark.parametrize(
    ("publish", "topic", "good"),
    [
        ((), "sportsbook.odds", False),
        (("odds",), "sportsbook.odds", True),
        (("bets",), "sportsbook.odds", False),
        (("bets",), "bets", True),
        (("*",), "anything", True),
        (("*",), "distributary.commands", False),
        (("*",), "distributary.schemas", False),
        (("*",), "__consumer_offsets", False),
    ],
)
def test_publish_names_feeds_or_topics(publish: tuple[str, ...], topic: str, good: bool) -> None:
    if good:
        demand(Grant("ann", publish=publish), Need.PUBLISH, topic, CONFIG)
    else:
        with pytest.raises(Forbidden):
            demand(Grant("ann", publish=publish), Need.PUBLISH, topic, CONFIG)
    demand(Grant("root", admin=True), Need.PUBLISH, topic, CONFIG)


async def test_pages_of_other_sites_are_refused(client: TestClient[Any, Any]) -> None:
    reply = await client.post("/topics/t", headers={"Origin": "https://evil.example.com"})
    assert (reply.status, (await reply.json())["error_code"]) == (403, 40301)
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
def test_the_prefix_is_that_of_the_advertised_address(url: str, prefix: str) -> None:
    assert prefix_of(Config(gateway=Gateway(advertised_url=url))) == prefix


async def test_a_prefix_opens_nothing() -> None:
    config = Config(permit=PERMIT, gateway=Gateway(advertised_url="http://k.example.com/rest"))
    async with TestClient(TestServer(make_app(config, MemoryStore().reader.revoked))) as client:
        for path in ("/rest/topics", "/rest/rest/topics", "/rest/brokers"):
            assert (await client.get(path)).status == 401
            assert (await client.get(path, headers=token(publish=True))).status == 403
        for path in ("/schemas/types", "/schemas/types/", "/rest/schemas/types", "/rest/schemas/types/"):
            assert (await client.get(path, headers=token())).status == 200
        for path in ("", "/", "/rest", "/rest/"):
            assert (await client.get(path)).status == 200, path
