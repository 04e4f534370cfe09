"""The gateway's application: all routes in one table, and what they share."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from distributary import __version__
from distributary.auth import Authenticator, metering
from distributary.auth.audit import AuditLog
from distributary.auth.limiter import Limiter
from distributary.config import Config
from distributary.deadline import DeadlinePool
from distributary.gateway.gateway_access import CONFIG, canonical_path, prefix_of, requirement_check
from distributary.gateway.gateway_errors import ERRORS
from distributary.gateway.registry import compatibility_routes, registry_routes
from distributary.gateway.registry.registry_requests import SCHEMA_LOG, negotiated
from distributary.gateway.registry.schema_checker import DEADLINE
from distributary.gateway.registry.schemas_topic import SchemaLog
from distributary.gateway.request_fields import reject_undeclared
from distributary.gateway.rest_proxy import consumer_routes, produce_v2, produce_v3, topic_routes
from distributary.gateway.rest_proxy.consumer_pool import ConsumerPool
from distributary.gateway.rest_proxy.metadata_client import MetadataClient
from distributary.gateway.rest_proxy.proxy_requests import CONSUMERS, METADATA, WRITER
from distributary.gateway.topic_stream import topic_stream_routes
from distributary.gateway.topic_stream.topic_stream_routes import STREAMS
from distributary.httpd.authorization import AUTHORIZATION, Authorization, Requirement, Route
from distributary.httpd.cors import CORS, Cors, OriginPolicy, add_security_headers
from distributary.httpd.request_audit import audit_middleware
from distributary.kafka.record_router import create_router
from distributary.kafka.topic_writer import TopicWriter
from distributary.store.contract import ReaderStore

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
"""The APIs with their paths and docs."""


def make_app(config: Config, store: ReaderStore) -> web.Application:
    """Create the application; it connects to Kafka at its first request.

    ``store`` has revocations and the usage of users. Raises ConfigError if the keys of ``[auth]`` are not
    valid.
    """
    table = all_routes()
    authorization = Authorization(
        table,
        Authenticator(config, store.revoked),
        Limiter(config, store),
        check=requirement_check(config),
        canonical=canonical_path(config),
    )
    cors = Cors(
        OriginPolicy("gateway", config.gateway),
        methods="GET, HEAD, POST, PUT, DELETE",
        request_headers="Accept, Content-Type, Authorization, X-API-Key, Last-Event-ID, Cache-Control",
    )
    app = web.Application(
        middlewares=[
            audit_middleware(AuditLog.of("gateway", config), authorization.attempt),
            ERRORS.middleware,
            cors.middleware,
            authorization.middleware,
            reject_undeclared,
        ],
        client_max_size=config.gateway.max_body,
    )
    app.on_response_prepare.extend((cors.add_headers, add_security_headers))
    app[CONFIG] = config
    app[AUTHORIZATION] = authorization
    app[CORS] = cors
    app[SCHEMA_LOG] = SchemaLog(config.kafka, config.gateway.schemas_topic)
    app[METADATA] = MetadataClient(config.kafka)
    app[DEADLINE] = DeadlinePool(config.gateway.schema_timeout, charge=metering.charge)
    app[WRITER] = TopicWriter(config.kafka, create_router(config), deadline=app[DEADLINE])
    app[CONSUMERS] = ConsumerPool(config.kafka, config.gateway)
    app.cleanup_ctx.append(_run_background_tasks)
    app[STREAMS] = set()
    app.on_shutdown.append(_end_waits)
    prefix = prefix_of(config)
    # A proxy may or may not remove the prefix, and some clients repeat it before the path of base_uri.
    for prepended in dict.fromkeys(("", prefix, prefix * 2)):
        for route in table:
            for path in _patterns(prepended + route.path):
                app.add_routes([route._replace(path=path).definition()])
    return app


def all_routes() -> list[Route]:
    """List all routes; the registry's handlers negotiate the content type of their responses."""
    registry = [route for part in (registry_routes, compatibility_routes) for route in part.routes()]
    proxy = (topic_routes, produce_v2, produce_v3, consumer_routes, topic_stream_routes)
    return [
        *health_routes(),
        *(route._replace(handler=negotiated(route.handler)) for route in registry),
        *(route for part in proxy for route in part.routes()),
    ]


def health_routes() -> list[Route]:
    """List the routes for monitoring."""
    return [
        Route("GET", "/", root, Requirement.PUBLIC),
        Route("GET", "/healthz", healthz, Requirement.PUBLIC),
        Route("GET", "/readyz", readyz, Requirement.PUBLIC),
    ]


async def root(request: web.Request) -> web.Response:
    """Describe the gateway: ``name``, ``version``, and its APIs with their paths and docs."""
    description: dict[str, Any] = {"name": "distributary gateway", "version": __version__, "apis": APIS}
    return web.Response(text=json.dumps(description, indent=2) + "\n", content_type="application/json")


async def healthz(request: web.Request) -> web.Response:
    """Report that this process responds."""
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Report that Kafka responds too and the schemas were read."""
    await request.app[SCHEMA_LOG].caught_up()
    return web.json_response({"status": "ok", "kafka": "ok"})


def _patterns(path: str) -> list[str]:
    """Return a path as patterns of the router: with and without a slash at its end."""
    # Names may contain any character, even braces, which a plain {name} of the router does not match.
    bare = re.sub(r"{(\w+)}", r"{\1:[^/]+}", path.rstrip("/"))
    return [bare, f"{bare}/"] if bare else ["/"]


async def _end_waits(app: web.Application) -> None:
    """End what waits for long, so that the process ends soon; clients reconnect."""
    app[CONSUMERS].stop_waiting()
    for task in app[STREAMS].copy():
        task.cancel()


async def _run_background_tasks(app: web.Application) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(app[CONSUMERS].maintain()),
        asyncio.create_task(app[AUTHORIZATION].limiter.reservations.run()),
    ]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(app[CONSUMERS].close(), app[WRITER].close(), app[SCHEMA_LOG].close())
