"""What each address of the API needs, and the check of every request against it.

A handler that makes a query passes it through `narrowed`; one that lists views leaves out what the grant
does not see. A reply with rows from a handler that did not narrow is not sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.control.replies import error_reply
from distributary.errors import AccessError, Forbidden
from distributary.model.position import Position
from distributary.model.query import Query
from distributary.permit import OPEN, Gate, Grant, Held, Need, challenge, demand

log = logging.getLogger(__name__)

GATE: web.AppKey[Gate] = web.AppKey("gate", Gate)

_GRANT: web.RequestKey[Grant] = web.RequestKey("grant", Grant)
_NARROWED: web.RequestKey[bool] = web.RequestKey("narrowed", bool)


NEEDS: Mapping[str, Need] = {
    "GET /": Need.OPEN,
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
    demand(grant, need, request.match_info.get("name"))
    reply = await handler(request)
    if need is Need.ROWS and reply.status < 300 and not request.get(_NARROWED):
        log.error("%s %s answered without narrowing its query", request.method, resource)
        raise Forbidden("these rows cannot be served to a token or key", hint="this is a mistake of ours")
    # What one user may read is not what the next may: no shared cache keeps it.
    reply.headers["Cache-Control"] = _private(reply.headers.get("Cache-Control", ""))
    reply.headers.add("Vary", "Authorization, X-API-Key")
    return reply


def grant_of(request: web.Request) -> Grant:
    """Give what the caller may do; `OPEN` where permission is off."""
    return request[_GRANT]


def narrowed(request: web.Request, query: Query) -> Query:
    """Give the query that is served to the caller in place of the one asked for; raises Forbidden."""
    narrow = grant_of(request).narrow(query)
    request[_NARROWED] = True
    return narrow


def told(request: web.Request, view: str, position: Position) -> Position:
    """Give a position as the caller is told it: one of rows under its filter, and no other."""
    return Position(Held((grant_of(request),)).epoch(view, position.epoch), position.seq)


def may_use(request: web.Request, subscription: str, query: Query) -> bool:
    """Say whether a subscription is the caller's (an admin may use any), within what the caller may read."""
    held = Held((grant_of(request),))
    return (held.owns(subscription) or held.grants[0].admin) and held.covers(query)


def _private(cache: str) -> str:
    words = [word.strip() for word in cache.split(",")] if cache else ["no-cache"]
    return ", ".join(["private", *(word for word in words if word not in ("public", "private"))])
