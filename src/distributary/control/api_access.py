"""What each address of the API needs, and the check of every request against it.

A handler that makes a query passes it through `narrowed`; one that lists views leaves out what the grant
does not see. A reply with rows from a handler that did not narrow is not sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth import OPEN, Authenticator, Grant, GrantSet, Operator
from distributary.auth.limiter import Limiter
from distributary.auth.metering import measured
from distributary.control.responses import error_reply
from distributary.errors import AccessError, Forbidden
from distributary.httpd.authorization import Need, challenge, demand
from distributary.httpd.listener import client_of
from distributary.httpd.request_audit import Attempt, route_of
from distributary.model.field_mask import Fields
from distributary.model.position import Position
from distributary.model.query import Query

log = logging.getLogger(__name__)

GATE: web.AppKey[Authenticator] = web.AppKey("gate", Authenticator)
LIMITER: web.AppKey[Limiter] = web.AppKey("limiter", Limiter)

_GRANT: web.RequestKey[Grant] = web.RequestKey("grant", Grant)
_NARROWED: web.RequestKey[bool] = web.RequestKey("narrowed", bool)


NEEDS: Mapping[str, Need] = {
    "GET /": Need.OPEN,
    "GET /v1": Need.OPEN,
    "GET /healthz": Need.OPEN,
    "GET /readyz": Need.OPEN,
    "GET /metrics": Need.READ,
    "GET /v1/status": Need.READ,
    "GET /v1/feeds": Need.READ,
    "GET /v1/views": Need.USER,
    "GET /v1/views/{name}": Need.ROWS,
    "GET /v1/views/{name}/status": Need.VIEW,
    "PUT /v1/views/{name}": Need.DEFINE,
    "DELETE /v1/views/{name}": Need.DEFINE,
    "POST /v1/subscriptions": Need.ROWS,
    "GET /v1/subscriptions/{id}": Need.USER,
    "DELETE /v1/subscriptions/{id}": Need.USER,
    "POST /v1/subscriptions/{id}/begin": Need.USER,
    "POST /v1/users/{user}/revoke": Need.OPERATE,
    "POST /v1/tokens/{id}/revoke": Need.OPERATE,
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
    need = _need(request)
    gate = request.app[GATE]
    if need is Need.OPEN:
        request[_GRANT] = OPEN
        return await handler(request)
    limiter, size = request.app[LIMITER], request.content_length or 0
    await limiter.arrival(client_of(request), size)
    grant = request[_GRANT] = await gate.by_headers(request.headers)
    demand(grant, need, request.match_info.get("name"))
    await limiter.request(grant, size)
    with limiter.metered(grant):
        reply = await measured(handler(request))
    if need is Need.ROWS and reply.status < 300 and not request.get(_NARROWED):
        log.error("%s answered without narrowing its query", route_of(request))
        raise Forbidden("these rows cannot be served to a token or key", hint="this is a mistake of ours")
    if not gate.on:
        return reply
    # What one user may read is not what the next may: no shared cache keeps it.
    reply.headers["Cache-Control"] = _private(reply.headers.get("Cache-Control", ""))
    reply.headers.add("Vary", "Authorization, X-API-Key")
    return reply


def _need(request: web.Request) -> Need:
    route = route_of(request)
    return NEEDS.get(route, Need.ADMIN) if route else Need.OPEN


def attempt(request: web.Request) -> Attempt:
    """Say what a request tried, for the audit log."""
    grant = request.get(_GRANT)
    changes = _need(request) in (Need.DEFINE, Need.OPERATE, Need.ADMIN)
    return Attempt(route_of(request) or request.method, grant.user if grant is not None else "", changes)


def grant_of(request: web.Request) -> Grant:
    """Give what the caller may do; `OPEN` where permission is off."""
    return request[_GRANT]


def held_of(request: web.Request) -> GrantSet:
    """Give what the caller's rows are read under."""
    return GrantSet((grant_of(request),))


def narrowed(request: web.Request, query: Query) -> Query:
    """Give the query that is served to the caller in place of the one asked for; raises Forbidden."""
    narrow = held_of(request).narrow(query)
    request[_NARROWED] = True
    return narrow


def shown(request: web.Request, view: str, wanted: Fields | None) -> Fields | None:
    """Give those of the wanted fields of a view's rows that the caller may see; None: all fields."""
    return held_of(request).visible_fields(view, wanted)


def told(request: web.Request, view: str, position: Position) -> Position:
    """Give a position as the caller is told it: one of rows under its filter, and no other."""
    return Position(held_of(request).visible_epoch(view, position.epoch), position.seq)


def may_use(request: web.Request, subscription: str, query: Query) -> bool:
    """Say whether a subscription is the caller's (an admin may use any), within what the caller may read."""
    held = held_of(request)
    return (held.owns(subscription) or grant_of(request).operator >= Operator.OPERATE) and held.covers(query)


def _private(cache: str) -> str:
    words = [word.strip() for word in cache.split(",")] if cache else ["no-cache"]
    return ", ".join(["private", *(word for word in words if word not in ("public", "private"))])
