from __future__ import annotations

from dataclasses import replace

from tests.unit.control.conftest import Api, check


async def test_a_page_of_another_site_is_refused(api: Api) -> None:
    api.define()
    headers = {"Origin": "https://evil.example"}
    async with api.client.post("/v1/subscriptions", json={"view": "odds"}, headers=headers) as reply:
        assert (await check(reply, 403))["code"] == "origin-refused"
    assert api.announced.commands == []


async def test_browsers_get_what_they_ask_for(api: Api) -> None:
    api.define()
    publisher = replace(api.config.publisher, origins=("https://app.example",))
    api.context.config = replace(api.config, publisher=publisher)
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    async with api.client.options("/v1/subscriptions", headers=headers) as reply:
        assert reply.status == 204
        assert "POST" in reply.headers["Access-Control-Allow-Methods"]
    async with api.client.post(
        "/v1/subscriptions", json={"view": "odds"}, headers={"Origin": "https://app.example"}
    ) as reply:
        assert reply.status == 201
        assert reply.headers["Access-Control-Allow-Origin"] == "https://app.example"
