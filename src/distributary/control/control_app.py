"""The API put together: every address in one table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from distributary.auth import Authenticator
from distributary.auth.audit import Audit
from distributary.auth.limiter import Limiter
from distributary.control import (
    health_routes,
    revocation_routes,
    row_routes,
    status_routes,
    subscription_routes,
    view_routes,
)
from distributary.control.api_access import GATE, LIMITER, attempt, permitted
from distributary.control.app_context import CONTEXT, Context
from distributary.control.cors import same_site
from distributary.control.responses import MAX_BODY, one_shape
from distributary.control.result_cache import Results
from distributary.control.sweep import sweep_forever
from distributary.httpd.request_audit import audited
from distributary.httpd.response_headers import add_safe_headers


def make_app(context: Context) -> web.Application:
    """Make the application; it sweeps lapsed subscriptions, and looks at the stack, while it runs.

    Raises ConfigError when the keys of ``[auth]`` cannot be used.
    """
    noted = audited(Audit.of("control", context.config), attempt)
    app = web.Application(middlewares=[noted, one_shape, same_site, permitted], client_max_size=MAX_BODY)
    app.on_response_prepare.append(add_safe_headers)
    app[CONTEXT] = context
    app[GATE] = Authenticator(context.config, context.reader.revoked)
    app[LIMITER] = Limiter(context.config, context.reader)
    app[row_routes.RESULTS] = Results(context.config.control.cache_bytes)
    app.cleanup_ctx.append(_at_intervals)
    app.add_routes(
        [
            web.get("/", status_routes.index),
            web.get("/v1", status_routes.index),
            web.get("/v1/status", status_routes.show),
            web.get("/v1/feeds", view_routes.feeds),
            web.get("/v1/views", view_routes.index),
            web.get("/v1/views/{name}", row_routes.show),
            web.put("/v1/views/{name}", view_routes.define),
            web.delete("/v1/views/{name}", view_routes.remove),
            web.get("/v1/views/{name}/status", view_routes.show),
            web.post("/v1/subscriptions", subscription_routes.create),
            web.get("/v1/subscriptions/{id}", subscription_routes.show),
            web.delete("/v1/subscriptions/{id}", subscription_routes.end),
            web.post("/v1/subscriptions/{id}/begin", subscription_routes.begin),
            web.post("/v1/users/{user}/revoke", revocation_routes.revoke),
            web.post("/v1/tokens/{id}/revoke", revocation_routes.revoke_token),
            web.get("/healthz", health_routes.healthz),
            web.get("/readyz", health_routes.readyz),
            web.get("/metrics", health_routes.metrics),
        ]
    )
    return app


async def _at_intervals(app: web.Application) -> AsyncIterator[None]:
    context = app[CONTEXT]
    tasks = [
        asyncio.create_task(sweep_forever(context)),
        asyncio.create_task(context.monitor.run()),
        asyncio.create_task(app[LIMITER].usage.run()),
    ]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
