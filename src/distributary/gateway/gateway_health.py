"""What the gateway is, and whether it, and Kafka behind it, answer."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from distributary import __version__
from distributary.gateway.registry.registry_requests import SCHEMA_LOG
from distributary.httpd.authorization import Requirement, Route

_DOCS = "docs/how-to/kafka-over-http.md"
APIS = (
    {
        "name": "Kafka REST proxy, versions 1 and 2",
        "paths": ["/topics", "/consumers", "/brokers"],
        "docs": _DOCS,
    },
    {"name": "Kafka REST proxy, version 3 (producing)", "paths": ["/v3/clusters"], "docs": f"{_DOCS}#write"},
    {
        "name": "schema registry",
        "paths": ["/subjects", "/schemas", "/compatibility", "/config", "/mode"],
        "docs": "docs/how-to/schemas.md",
    },
    {"name": "topic streams (SSE, WebSocket)", "paths": ["/v1/topics"], "docs": f"{_DOCS}#follow-a-topic"},
    {"name": "health", "paths": ["/healthz", "/readyz"], "docs": "docs/reference/rest.md#gateway"},
)
"""What is served, where, and where it is described."""


def routes() -> list[Route]:
    """List the addresses for those who watch."""
    return [
        Route("GET", "/", root, Requirement.PUBLIC),
        Route("GET", "/healthz", healthz, Requirement.PUBLIC),
        Route("GET", "/readyz", readyz, Requirement.PUBLIC),
    ]


async def root(request: web.Request) -> web.Response:
    """Say what there is: ``name``, ``version``, and the APIs with their addresses and docs."""
    said: dict[str, Any] = {"name": "distributary gateway", "version": __version__, "apis": APIS}
    return web.Response(text=json.dumps(said, indent=2) + "\n", content_type="application/json")


async def healthz(request: web.Request) -> web.Response:
    """Say that this process answers."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Say that Kafka answers too and the schemas are read."""
    await request.app[SCHEMA_LOG].caught_up()
    return web.json_response({"status": "ok", "kafka": "ok"})
