"""The gateway put together: every address in one table."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from aiohttp import web

from distributary.auth import Authenticator, metering
from distributary.auth.audit import Audit
from distributary.auth.limiter import Limiter
from distributary.config import Config
from distributary.deadline import Deadline
from distributary.gateway import gateway_health
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
from distributary.httpd.authorization import AUTHORIZATION, Authorization, Route
from distributary.httpd.cors import CORS, Cors, OriginPolicy
from distributary.httpd.request_audit import audit_middleware
from distributary.httpd.response_headers import add_safe_headers
from distributary.kafka.record_router import create_router
from distributary.kafka.topic_writer import TopicWriter
from distributary.store.contract import ReaderStore as Store


def make_app(config: Config, store: Store) -> web.Application:
    """Make the application; it talks to Kafka from its first request on.

    ``store`` has revocations and what users have. Raises ConfigError when the keys of ``[auth]`` cannot
    be used.
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
            audit_middleware(Audit.of("gateway", config), authorization.attempt),
            ERRORS.middleware,
            cors.middleware,
            authorization.middleware,
            reject_undeclared,
        ],
        client_max_size=config.gateway.max_body,
    )
    app.on_response_prepare.extend((cors.add_headers, add_safe_headers))
    app[CONFIG] = config
    app[AUTHORIZATION] = authorization
    app[CORS] = cors
    app[SCHEMA_LOG] = SchemaLog(config.kafka, config.gateway.schemas_topic)
    app[METADATA] = MetadataClient(config.kafka)
    app[DEADLINE] = Deadline(config.gateway.schema_timeout, charge=metering.charge)
    app[WRITER] = TopicWriter(config.kafka, create_router(config), deadline=app[DEADLINE])
    app[CONSUMERS] = ConsumerPool(config.kafka, config.gateway)
    app.cleanup_ctx.append(_closing)
    app[STREAMS] = set()
    app.on_shutdown.append(_stopping)
    prefix = prefix_of(config)
    # A proxy may or may not take the prefix off, and some clients put it before base_uri's path once more.
    for before in dict.fromkeys(("", prefix, prefix * 2)):
        for one in table:
            for path in _paths(before + one.path):
                app.add_routes([one._replace(path=path).definition()])
    return app


def all_routes() -> list[Route]:
    """List all routes; the registry's handlers negotiate the content type of their responses."""
    registry = [route for part in (registry_routes, compatibility_routes) for route in part.routes()]
    proxy = (topic_routes, produce_v2, produce_v3, consumer_routes, topic_stream_routes)
    return [
        *gateway_health.routes(),
        *(route._replace(handler=negotiated(route.handler)) for route in registry),
        *(route for part in proxy for route in part.routes()),
    ]


def _paths(path: str) -> list[str]:
    """Write an address as the router's patterns: with and without a slash at its end."""
    # Names may have any character, braces too, which a plain {name} of the router does not match.
    bare = re.sub(r"{(\w+)}", r"{\1:[^/]+}", path.rstrip("/"))
    return [bare, f"{bare}/"] if bare else ["/"]


async def _stopping(app: web.Application) -> None:
    """End what would wait for long, so that the process ends soon; clients come back."""
    app[CONSUMERS].stop_waiting()
    for task in app[STREAMS].copy():
        task.cancel()


async def _closing(app: web.Application) -> AsyncIterator[None]:
    running = [
        asyncio.create_task(app[CONSUMERS].maintain()),
        asyncio.create_task(app[AUTHORIZATION].limiter.usage.run()),
    ]
    yield
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.gather(app[CONSUMERS].close(), app[WRITER].close(), app[SCHEMA_LOG].close())
