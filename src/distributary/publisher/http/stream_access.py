"""What each address of the publisher's HTTP side needs, and the check of every request against it."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth import EVERYTHING, Authenticator, Grant, GrantSet
from distributary.auth.jwt_checks import refuse
from distributary.errors import AccessError, DistributaryError, Forbidden, StoreUnavailable, TooManyRequests
from distributary.httpd.authorization import Need, challenge, demand
from distributary.httpd.listener import client_of
from distributary.httpd.request_audit import Attempt, route_of
from distributary.publisher.access_control import Door
from distributary.publisher.codec.codes import protocol_error
from distributary.publisher.codec.websocket_frames import encode
from distributary.publisher.http.stream_sink import shape_of
from distributary.publisher.metrics import Stats

STREAM = "GET /v1/views/{view}/events"

NEEDS: Mapping[str, Need] = {
    STREAM: Need.ROWS,
    "GET /v1/stats": Need.READ,
    "GET /metrics": Need.READ,
    "GET /healthz": Need.OPEN,
    "GET /readyz": Need.OPEN,
    "GET /": Need.OPEN,
    "GET /{file}": Need.OPEN,
}
"""Every address by what it needs; one that is not here needs an admin."""

_STATUS: Mapping[type[DistributaryError], int] = {TooManyRequests: 429, Forbidden: 403}

_HELD: web.RequestKey[GrantSet] = web.RequestKey("held", GrantSet)


def attempt(request: web.Request) -> Attempt:
    """Say what a request tried, for the audit log: nothing here changes a stack."""
    held = request.get(_HELD, EVERYTHING)
    return Attempt(route_of(request) or request.method, held.user, changes=False)


def held_of(request: web.Request) -> GrantSet:
    """Give what the caller may have."""
    return request[_HELD]


class Access:
    """Checks requests by the door's gate."""

    def __init__(self, door: Door, stats: Stats) -> None:
        self._gate, self._limiter = door.gate, door.limiter
        self._stats = stats

    @web.middleware
    async def permitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request through to its handler when its token or key allows what the address needs."""
        name = route_of(request)
        need = NEEDS.get(name, Need.ADMIN) if name else Need.OPEN
        request[_HELD] = EVERYTHING
        if need is not Need.OPEN:
            try:
                await self._limiter.arrival(client_of(request))
                grant = await shown(self._gate, request, address=name == STREAM)
                request[_HELD] = GrantSet((grant,))
                demand(grant, need, request.match_info.get("view"))
            except (AccessError, StoreUnavailable, TooManyRequests) as error:
                self._stats.refused_access += 1
                return refused(error, request.headers.get("Accept", "") if name == STREAM else "")
        return await handler(request)


async def shown(gate: Authenticator, request: web.Request, *, address: bool) -> Grant:
    """Say what a request allows: by its headers, or with ``address`` by ``token`` in its address.

    The latter is for browsers, whose ``EventSource`` sends no headers of one's own.
    """
    token = request.query.get("token") if address else None
    if token is None:
        return await gate.by_headers(request.headers)
    if "Authorization" in request.headers or "X-API-Key" in request.headers:
        raise refuse("malformed", "a token is in the address and in a header", "give one")
    return await gate.by_token(token)


def refused(error: DistributaryError, accept: str = "") -> web.Response:
    """Answer a request that is not let through; ``accept`` is that of a request for a stream."""
    if error.retry and "text/event-stream" in accept:
        # A browser gives up for good on any status but 200; so it gets a stream that ends.
        shape = shape_of(accept)
        said = protocol_error(error)
        end = shape.event("end", b'{"code":%d,"reason":%b}' % (said.code, encode(said[1])))
        headers = {"Content-Type": shape.content_type, "Cache-Control": "no-store"}
        return web.Response(body=shape.first + end, headers=headers)
    body = {"code": error.code, "message": error.message, "hint": error.hint, "retry": error.retry}
    status = _STATUS.get(type(error), 503 if error.retry else 401)
    reply = web.json_response({"error": body}, status=status, headers={"Cache-Control": "no-store"})
    if error.retry:
        reply.headers["Retry-After"] = "1"
    elif isinstance(error, AccessError):
        reply.headers["WWW-Authenticate"] = challenge(error)
    return reply
