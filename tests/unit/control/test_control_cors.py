from __future__ import annotations

from aiohttp.test_utils import TestClient, TestServer
from tests.support.control_api import Api, check

from distributary.config import Config, Control, Publisher
from distributary.control.app_context import Context
from distributary.control.control_app import make_app
from distributary.httpd.cors import CORS, OriginPolicy


async def test_page_of_another_site_is_refused(api: Api) -> None:
    api.define()
    headers = {"Origin": "https://evil.example"}
    async with api.client.post("/v1/subscriptions", json={"view": "odds"}, headers=headers) as reply:
        assert (await check(reply, 403))["code"] == "origin-refused"
    assert api.announced.commands == []


async def test_preflight_and_response_have_cors_headers(api: Api) -> None:
    api.define()
    api.client.app[CORS].policy = OriginPolicy("control", Control(origins=("https://app.example",)))
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    async with api.client.options("/v1/subscriptions", headers=headers) as reply:
        assert reply.status == 204
        assert "POST" in reply.headers["Access-Control-Allow-Methods"]
    async with api.client.post(
        "/v1/subscriptions", json={"view": "odds"}, headers={"Origin": "https://app.example"}
    ) as reply:
        assert reply.status == 201
        assert reply.headers["Access-Control-Allow-Origin"] == "https://app.example"


async def test_page_whose_domain_came_to_mean_this_machine_is_refused(api: Api) -> None:
    """DNS rebinding: the page and the API have the same origin, as far as the browser knows."""
    host = {"Host": "evil.example:8080"}
    for headers in (host, {**host, "Origin": "http://evil.example:8080"}):
        for method, path in (("GET", "/v1/views"), ("PUT", "/v1/views/x"), ("OPTIONS", "/v1/views/x")):
            async with api.client.request(method, path, headers=headers) as reply:
                assert reply.status == 421
                assert "Access-Control-Allow-Origin" not in reply.headers


async def test_pages_allowed_at_the_publisher_are_not_thereby_allowed_here(api: Api) -> None:
    config = Config(publisher=Publisher(origins=("https://app.example",)))
    context = Context(config, api.store.reader, api.store.writer, api.announced)
    async with TestClient(TestServer(make_app(context))) as client:
        reply = await client.get("/v1/views", headers={"Origin": "https://app.example"})
        assert reply.status == 403


async def test_allowed_page_may_read_an_error(api: Api) -> None:
    api.client.app[CORS].policy = OriginPolicy("control", Control(origins=("https://app.example",)))
    async with api.client.get("/v1/nothing", headers={"Origin": "https://app.example"}) as reply:
        assert reply.status == 404
        assert reply.headers["Access-Control-Allow-Origin"] == "https://app.example"
