"""The API put together: every address in one table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from distributary.auth import Gate
from distributary.auth.audit import Audit
from distributary.auth.audited import audited
from distributary.auth.limiter import Limiter
from distributary.control import health, rows, status, subscriptions, users, views
from distributary.control.access import GATE, LIMITER, attempt, permitted
from distributary.control.context import CONTEXT, Context
from distributary.control.origins import same_site
from distributary.control.replies import MAX_BODY, one_shape
from distributary.control.results import Results
from distributary.control.sweep import sweep_forever
from distributary.httpd.response_headers import add_safe_headers


def make_app(context: Context) -> web.Application:
    """Make the application; it sweeps lapsed subscriptions, and looks at the stack, while it runs.

    Raises ConfigError when the keys of ``[permit]`` cannot be used.
    """
    noted = audited(Audit.of("control", context.config), attempt)
    app = web.Application(middlewares=[noted, one_shape, same_site, permitted], client_max_size=MAX_BODY)
    app.on_response_prepare.append(add_safe_headers)
    app[CONTEXT] = context
    app[GATE] = Gate(context.config, context.reader.revoked)
    app[LIMITER] = Limiter(context.config, context.reader)
    app[rows.RESULTS] = Results(context.config.control.cache_bytes)
    app.cleanup_ctx.append(_at_intervals)
    app.add_routes(
        [
            web.get("/", status.index),
            web.get("/v1", status.index),
            web.get("/v1/status", status.show),
            web.get("/v1/feeds", views.feeds),
            web.get("/v1/views", views.index),
            web.get("/v1/views/{name}", rows.show),
            web.put("/v1/views/{name}", views.define),
            web.delete("/v1/views/{name}", views.remove),
            web.get("/v1/views/{name}/status", views.show),
            web.post("/v1/subscriptions", subscriptions.create),
            web.get("/v1/subscriptions/{id}", subscriptions.show),
            web.delete("/v1/subscriptions/{id}", subscriptions.end),
            web.post("/v1/subscriptions/{id}/begin", subscriptions.begin),
            web.post("/v1/users/{user}/revoke", users.revoke),
            web.post("/v1/tokens/{id}/revoke", users.revoke_token),
            web.get("/healthz", health.healthz),
            web.get("/readyz", health.readyz),
            web.get("/metrics", health.metrics),
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
