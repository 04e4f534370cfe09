"""The gateway put together: every address in one table."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from aiohttp import web

from distributary.auth import Gate, PageRules, metering
from distributary.auth.audit import Audit
from distributary.auth.audited import audited
from distributary.auth.limiter import Limiter
from distributary.config import Config
from distributary.deadline import Deadline
from distributary.gateway import health
from distributary.gateway.access import CONFIG, GATE, LIMITER, RULES, attempt, permitted, prefix_of
from distributary.gateway.fields import declared_only
from distributary.gateway.registry import ids, modes
from distributary.gateway.registry import routes as schemas
from distributary.gateway.registry.checker import DEADLINE
from distributary.gateway.registry.log import SchemaLog
from distributary.gateway.registry.requests import LOG, negotiated
from distributary.gateway.replies import one_shape
from distributary.gateway.rest_proxy import consuming, messages, metadata, producing, records
from distributary.gateway.rest_proxy.cluster import Cluster
from distributary.gateway.rest_proxy.instances import Instances
from distributary.gateway.topic_stream import routes as streams
from distributary.httpd.response_headers import add_safe_headers
from distributary.kafka.gate import make_gate
from distributary.kafka.writer import TopicWriter
from distributary.store.base import ReaderStore as Store


def make_app(config: Config, store: Store) -> web.Application:
    """Make the application; it talks to Kafka from its first request on.

    ``store`` has revocations and what users have. Raises ConfigError when the keys of ``[permit]`` cannot
    be used.
    """
    noted = audited(Audit.of("gateway", config), attempt)
    app = web.Application(
        middlewares=[noted, one_shape, permitted, declared_only], client_max_size=config.gateway.max_body
    )
    app.on_response_prepare.append(add_safe_headers)
    app[CONFIG] = config
    app[RULES] = PageRules("gateway", config.gateway)
    app[GATE] = Gate(config, store.revoked)
    app[LIMITER] = Limiter(config, store)
    app[LOG] = SchemaLog(config.kafka, config.gateway.schemas_topic)
    app[metadata.CLUSTER] = Cluster(config.kafka)
    app[DEADLINE] = Deadline(config.gateway.schema_timeout, charge=metering.charge)
    app[producing.WRITER] = TopicWriter(config.kafka, make_gate(config), deadline=app[DEADLINE])
    app[consuming.INSTANCES] = Instances(config.kafka, config.gateway)
    app.cleanup_ctx.append(_closing)
    app[streams.OPEN] = set()
    app.on_shutdown.append(_stopping)
    registry = [route for part in (schemas, ids, modes) for route in part.routes()]
    proxy = (metadata, producing, records, consuming, messages, streams)
    table = [
        *health.routes(),
        *(web.RouteDef(one.method, one.path, negotiated(one.handler), one.kwargs) for one in registry),
        *(route for part in proxy for route in part.routes()),
    ]
    prefix = prefix_of(config)
    # A proxy may or may not take the prefix off, and some clients put it before base_uri's path once more.
    for before in dict.fromkeys(("", prefix, prefix * 2)):
        for one in table:
            for path in _paths(before + one.path):
                app.add_routes([web.RouteDef(one.method, path, one.handler, one.kwargs)])
    return app


def _paths(path: str) -> list[str]:
    """Write an address as the router's patterns: with and without a slash at its end."""
    # Names may have any character, braces too, which a plain {name} of the router does not match.
    bare = re.sub(r"{(\w+)}", r"{\1:[^/]+}", path.rstrip("/"))
    return [bare, f"{bare}/"] if bare else ["/"]


async def _stopping(app: web.Application) -> None:
    """End what would wait for long, so that the process ends soon; clients come back."""
    app[consuming.INSTANCES].stop_waiting()
    for task in app[streams.OPEN].copy():
        task.cancel()


async def _closing(app: web.Application) -> AsyncIterator[None]:
    running = [
        asyncio.create_task(app[consuming.INSTANCES].keep()),
        asyncio.create_task(app[LIMITER].usage.run()),
    ]
    yield
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.gather(app[consuming.INSTANCES].close(), app[producing.WRITER].close(), app[LOG].close())
