"""Whether the gateway, and Kafka behind it, answer."""

from __future__ import annotations

from aiohttp import web

from distributary.gateway.schemas.routes import LOG


def routes() -> list[web.RouteDef]:
    """List the addresses for those who watch."""
    return [web.get("/", root), web.get("/healthz", healthz), web.get("/readyz", readyz)]


async def root(request: web.Request) -> web.Response:
    """Answer with an empty object, as registries do for clients that look whether one is there."""
    return web.json_response({})


async def healthz(request: web.Request) -> web.Response:
    """Say that this process answers."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Say that Kafka answers too and the schemas are read."""
    await request.app[LOG].caught_up()
    return web.json_response({"status": "ok", "kafka": "ok"})
