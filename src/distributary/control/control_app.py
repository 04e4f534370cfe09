"""The API put together: every route in one table, with what it requires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth import Authenticator
from distributary.auth.audit import AuditLog
from distributary.auth.limiter import Limiter
from distributary.control import (
    revocation_routes,
    row_routes,
    status_routes,
    subscription_routes,
    view_routes,
)
from distributary.control.app_context import CONTEXT, ERRORS, MAX_BODY, Context
from distributary.control.result_cache import Results
from distributary.control.subscription_routes import sweep_forever
from distributary.httpd.authorization import AUTHORIZATION, Authorization, Requirement, Route
from distributary.httpd.cors import CORS, Cors, OriginPolicy, add_security_headers
from distributary.httpd.request_audit import audit_middleware

ROUTES = (
    Route("GET", "/", status_routes.index, Requirement.PUBLIC),
    Route(
        "GET",
        "/v1",
        status_routes.index,
        Requirement.PUBLIC,
        "Gives `publisher` (the WebSocket's address), `http` (SSE, metrics) and `resources`.",
    ),
    Route(
        "GET",
        "/v1/status",
        status_routes.show,
        Requirement.READ,
        "Everything that `distributary status` shows: `components`, `feeds`, `views` (rate, lag, position, "
        "subscribers, dead letters, delays), `publishers` and `alarms`; and `stores`, the store's servers.",
    ),
    Route(
        "GET",
        "/v1/feeds",
        view_routes.feeds,
        Requirement.READ,
        "The feeds, with the views of each.",
    ),
    Route("GET", "/v1/views", view_routes.index, Requirement.USER, "All views, each as its status below."),
    Route(
        "GET",
        "/v1/views/{name}",
        row_routes.show,
        Requirement.ROWS,
        "Parameters: `where`, or `key` (repeated) or `keys` (separated by commas); "
        "`fields`, `limit` and `page`. As JSON, NDJSON, CSV or an Arrow stream, by `Accept`; with `ETag`, "
        "`Last-Modified`, `Cache-Control` and `Link`. See [how to read rows](../how-to/rest.md).",
    ),
    Route(
        "PUT",
        "/v1/views/{name}",
        view_routes.define,
        Requirement.DEFINE,
        'The body is a view\'s settings: `{"feed": "odds", "key": "market_id"}`. '
        "A feed that the stack does not know is given in full: "
        '`{"view": {…}, "feed": {"name": …, "topic": …}}`. Gives `build`, `state` and `changed`.',
    ),
    Route("DELETE", "/v1/views/{name}", view_routes.remove, Requirement.DEFINE),
    Route(
        "GET",
        "/v1/views/{name}/status",
        view_routes.show,
        Requirement.VIEW,
        "One view: `status` (`building`, `live` or `stopped`), `reason`, "
        "`rows`, `seq`, `epoch`, `records`, `dead_letters`, `rate`, `lag`, `engine`, `rekeyed`, "
        "`incomplete`, "
        "`stale`, `position` by partition, `next` (a build under way) and `definition`.",
    ),
    Route(
        "POST",
        "/v1/subscriptions",
        subscription_routes.create,
        Requirement.ROWS,
        'The body is `{"view": "odds"}` with `"where": "sport = \'football\'"` or '
        '`"keys": ["m1", "m2"]`, for the first rows `"order": "price desc", "limit": 10`, and perhaps '
        '`"fields": "price,score.home"`. Gives 201 with `id`, `channel` and `publisher` (for a WebSocket), '
        "`events` (for SSE), which have the fields, `state` and `expires_in`: a subscription without "
        "subscribers lapses after `store.subscription_ttl`. 503 while the view is being built.",
    ),
    Route(
        "GET",
        "/v1/subscriptions/{id}",
        subscription_routes.show,
        Requirement.USER,
        "The same for one that exists; with [conflation](../how-to/first-rows-and-conflation.md), `pace` "
        "counts the changes that it was not sent one by one. 404 when it ended or lapsed.",
    ),
    Route(
        "DELETE",
        "/v1/subscriptions/{id}",
        subscription_routes.end,
        Requirement.USER,
        "Ends it at once. 204, or 404 if there is none.",
    ),
    Route(
        "POST",
        "/v1/subscriptions/{id}/begin",
        subscription_routes.begin,
        Requirement.USER,
        "Its subscribers get the rows, then the changes. 409 if it was already begun.",
    ),
    Route("POST", "/v1/users/{user}/revoke", revocation_routes.revoke, Requirement.OPERATE),
    Route("POST", "/v1/tokens/{id}/revoke", revocation_routes.revoke_token, Requirement.OPERATE),
    Route("GET", "/healthz", status_routes.healthz, Requirement.PUBLIC),
    Route("GET", "/readyz", status_routes.readyz, Requirement.PUBLIC),
    Route("GET", "/metrics", status_routes.metrics, Requirement.READ),
)


def make_app(context: Context) -> web.Application:
    """Create the application; while it runs it sweeps lapsed subscriptions and observes the stack.

    Raises ConfigError when the keys of ``[auth]`` cannot be used.
    """
    config = context.config
    authenticator = Authenticator(config, context.reader.revoked)
    authorization = Authorization(ROUTES, authenticator, Limiter(config, context.reader), private=True)
    cors = Cors(
        OriginPolicy("control", config.control),
        methods="GET, HEAD, POST, PUT, DELETE",
        request_headers="Content-Type, Authorization, X-API-Key, If-None-Match",
        response_headers="ETag, Link, Distributary-Position, Distributary-State",
    )
    app = web.Application(
        middlewares=[
            audit_middleware(AuditLog.of("control", config), authorization.attempt),
            _count_requests,
            ERRORS.middleware,
            cors.middleware,
            authorization.middleware,
        ],
        client_max_size=MAX_BODY,
    )
    app.on_response_prepare.extend((cors.add_headers, add_security_headers))
    app[CONTEXT] = context
    app[AUTHORIZATION] = authorization
    app[CORS] = cors
    app[row_routes.RESULTS] = Results(config.control.cache_bytes)
    app.cleanup_ctx.append(_at_intervals)
    app.add_routes([route.definition() for route in ROUTES])
    return app


@web.middleware
async def _count_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count requests by route and status."""
    response = await handler(request)
    resource = request.match_info.route.resource
    path = resource.canonical if resource is not None else "none"
    request.app[CONTEXT].counts[f"{request.method} {path}", str(response.status)] += 1
    return response


async def _at_intervals(app: web.Application) -> AsyncIterator[None]:
    context = app[CONTEXT]
    tasks = [
        asyncio.create_task(sweep_forever(context)),
        asyncio.create_task(context.monitor.run()),
        asyncio.create_task(app[AUTHORIZATION].limiter.reservations.run()),
    ]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
