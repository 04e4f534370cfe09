from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from distributary.gateway.gateway_errors import ERRORS
from distributary.gateway.registry.registry_requests import negotiated


async def ok(request: web.Request) -> web.Response:
    return web.Response(text="{}")


async def test_body_of_unsupported_content_type_is_rejected() -> None:
    app = web.Application(middlewares=[ERRORS.middleware])
    app.router.add_put("/", negotiated(ok))
    kinds = {
        "application/json": 200,
        "Application/JSON ; charset=utf-8": 200,
        "application/vnd.schemaregistry.v1+json": 200,
        "": 200,
        "application/octet-stream": 200,
        "text/plain": 415,
        "(" * 500: 415,
        ";" * 500 + "\u20ac": 200,
        "text/" + "x" * 5_000: 415,
    }
    async with TestClient(TestServer(app)) as client:
        for kind, status in kinds.items():
            async with client.put("/", data=b"{}", headers={"Content-Type": kind}) as reply:
                assert reply.status == status, kind
