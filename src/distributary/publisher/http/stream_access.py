"""Who may use the publisher's HTTP side, and what a client that may not is sent."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth import Grant
from distributary.auth.jwt_checks import refuse
from distributary.errors import (
    AccessError,
    DistributaryError,
    HostRefused,
    OriginRefused,
    StoreUnavailable,
    TooManyRequests,
)
from distributary.httpd.authorization import Authorization, Route
from distributary.httpd.error_responses import ErrorResponses
from distributary.publisher.access_control import AccessControl
from distributary.publisher.codec.codes import protocol_error
from distributary.publisher.codec.publication import encode_json
from distributary.publisher.http.stream_sink import stream_format
from distributary.publisher.metrics import Counters

STREAM = "/v1/views/{view}/events"
ERRORS = ErrorResponses("the publisher")


class StreamAccess:
    """Checks requests as the WebSocket side does, and counts those that are refused."""

    def __init__(self, routes: list[Route], access: AccessControl, stats: Counters) -> None:
        self._authenticator = access.authenticator
        self._stats = stats
        self.authorization = Authorization(
            routes, access.authenticator, access.limiter, credentials=self._grant_of_credentials
        )

    @web.middleware
    async def count_refused_pages(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer requests of pages that may not use this server."""
        try:
            return await handler(request)
        except (HostRefused, OriginRefused) as error:
            self._stats.refused_origins += isinstance(error, OriginRefused)
            return ERRORS.response(error)

    @web.middleware
    async def authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass a request to its handler if its token or key allows its route."""
        try:
            await self.authorization.authorize(request)
        except (AccessError, StoreUnavailable, TooManyRequests) as error:
            self._stats.refused_access += 1
            return refused(error, request.headers.get("Accept", "") if _is_stream(request) else "")
        return await handler(request)

    async def _grant_of_credentials(self, request: web.Request) -> Grant:
        """Return what a request allows, by its headers or, for a stream, by ``token`` in its URL.

        The latter is for browsers, whose ``EventSource`` cannot send headers of the page's choice.
        """
        token = request.query.get("token") if _is_stream(request) else None
        if token is None:
            return await self._authenticator.by_headers(request.headers)
        if "Authorization" in request.headers or "X-API-Key" in request.headers:
            raise refuse("malformed", "there is a token in the URL and in a header", "send one of them")
        return await self._authenticator.by_token(token)


def refused(error: DistributaryError, accept: str = "") -> web.Response:
    """Answer a request that is refused; ``accept`` is that of a request for a stream."""
    if not error.retry or "text/event-stream" not in accept:
        return ERRORS.response(error)
    # A browser gives up for good on any status but 200, so it gets a stream that ends.
    format = stream_format(accept)
    reply = protocol_error(error)
    end = format.event("end", b'{"code":%d,"reason":%b}' % (reply.code, encode_json(reply[1])))
    headers = {"Content-Type": format.content_type, "Cache-Control": "no-store"}
    return web.Response(body=format.first + end, headers=headers)


def _is_stream(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical == STREAM
