"""What each address of the API needs, and the check of every request against it.

A handler that makes a query passes it through `narrowed`; one that lists views leaves out what the grant
does not see. A reply with rows from a handler that did not narrow is not sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.control.replies import error_reply
from distributary.errors import AccessError, CredentialsMissing, Forbidden, TokenRefused
from distributary.model.query import Query
from distributary.permit import OPEN, Gate, Grant

log = logging.getLogger(__name__)

GATE: web.AppKey[Gate] = web.AppKey("gate", Gate)

_GRANT: web.RequestKey[Grant] = web.RequestKey("grant", Grant)
_NARROWED: web.RequestKey[bool] = web.RequestKey("narrowed", bool)


class Need(Enum):
    """What a caller must have for an address."""

    OPEN = "nothing: it says nothing of the views"
    USER = "any token or key; the handler looks which views it sees"
    VIEW = "a grant that sees the view of the address"
    ROWS = "the same, and the handler narrows the query"
    MONITOR = "monitor, or admin"
    ADMIN = "admin"


NEEDS: Mapping[str, Need] = {
    "GET /v1": Need.OPEN,
    "GET /healthz": Need.OPEN,
    "GET /readyz": Need.OPEN,
    "GET /metrics": Need.MONITOR,
    "GET /v1/status": Need.MONITOR,
    "GET /v1/feeds": Need.MONITOR,
    "GET /v1/views": Need.USER,
    "GET /v1/views/{name}": Need.ROWS,
    "GET /v1/views/{name}/status": Need.VIEW,
    "PUT /v1/views/{name}": Need.ADMIN,
    "DELETE /v1/views/{name}": Need.ADMIN,
    "POST /v1/subscriptions": Need.ROWS,
    "GET /v1/subscriptions/{id}": Need.USER,
    "DELETE /v1/subscriptions/{id}": Need.USER,
    "POST /v1/subscriptions/{id}/begin": Need.USER,
    "POST /v1/users/{user}/revoke": Need.ADMIN,
}
"""Every address by what it needs; one that is not here needs an admin."""


@web.middleware
async def permitted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through to its handler when its token or key allows what the address needs."""
    try:
        return await _checked(request, handler)
    except AccessError as error:
        reply = error_reply(error)
        if reply.status in (401, 403):
            reply.headers["WWW-Authenticate"] = challenge(error)
        return reply


async def _checked(request: web.Request, handler: Handler) -> web.StreamResponse:
    resource = request.match_info.route.resource
    method = "GET" if request.method == "HEAD" else request.method
    need = NEEDS.get(f"{method} {resource.canonical}", Need.ADMIN) if resource is not None else Need.OPEN
    gate = request.app[GATE]
    if need is Need.OPEN or not gate.on:
        request[_GRANT] = OPEN
        return await handler(request)
    grant = request[_GRANT] = await gate.by_headers(request.headers)
    _demand(grant, need, request.match_info.get("name"))
    reply = await handler(request)
    if need is Need.ROWS and reply.status < 300 and not request.get(_NARROWED):
        log.error("%s %s answered without narrowing its query", request.method, resource)
        raise Forbidden("these rows cannot be served to a token or key", hint="this is a mistake of ours")
    # What one user may read is not what the next may: no shared cache keeps it.
    reply.headers["Cache-Control"] = _private(reply.headers.get("Cache-Control", ""))
    reply.headers.add("Vary", "Authorization, X-API-Key")
    return reply


def _demand(grant: Grant, need: Need, view: str | None) -> None:
    if need in (Need.VIEW, Need.ROWS) and view is not None:
        grant.view(view)
    elif need is Need.ADMIN and not grant.admin:
        raise Forbidden(f'the user "{grant.user}" is no admin', hint="ask for a token with admin = true")
    elif need is Need.MONITOR and not (grant.monitor or grant.admin):
        raise Forbidden(
            f'the user "{grant.user}" may not monitor', hint="ask for a token with monitor = true"
        )


def grant_of(request: web.Request) -> Grant:
    """Give what the caller may do; `OPEN` where permission is off."""
    return request[_GRANT]


def narrowed(request: web.Request, query: Query) -> Query:
    """Give the query that is served to the caller in place of the one asked for; raises Forbidden."""
    narrow = grant_of(request).narrow(query)
    request[_NARROWED] = True
    return narrow


def demand_covered(request: web.Request, query: Query) -> None:
    """Raise Forbidden when a query that is there already asks for more than the caller may read."""
    if not grant_of(request).covers(query):
        raise Forbidden(
            "this subscription asks for more than the token or key allows", hint="make one with your own"
        )


def challenge(error: AccessError) -> str:
    """Write the header that says why a caller was refused (RFC 6750)."""
    said = 'Bearer realm="distributary"'
    if isinstance(error, CredentialsMissing):
        return said
    code = "invalid_token" if isinstance(error, TokenRefused) else "insufficient_scope"
    reason = f', error_description="{error.reason}"' if isinstance(error, TokenRefused) else ""
    return f'{said}, error="{code}"{reason}'


def _private(cache: str) -> str:
    words = [word.strip() for word in cache.split(",")] if cache else ["no-cache"]
    return ", ".join(["private", *(word for word in words if word not in ("public", "private"))])
