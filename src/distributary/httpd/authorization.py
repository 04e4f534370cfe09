"""Authorization of HTTP requests: each server has one table of routes, which says what each of them requires.

A route that is in no table requires an admin. A response with rows is not sent unless its handler has called
`narrow_query`: a handler that forgets the caller's row filter fails instead of leaking rows.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth import OPEN, Authenticator, Grant, GrantSet, Operator
from distributary.auth.limiter import Limiter
from distributary.auth.metering import measured
from distributary.errors import AccessError, CredentialsMissing, Forbidden, TokenRefused
from distributary.httpd.listener import client_of
from distributary.httpd.request_audit import Attempt
from distributary.model.query import Query

log = logging.getLogger(__name__)


class Requirement(Enum):
    """What a caller must have for a route."""

    PUBLIC = "nothing: the response contains nothing about views, topics or schemas"
    USER = "any token or key; the handler leaves out what its grant does not allow"
    VIEW = "a grant that allows the view in the path"
    ROWS = "the same, and the handler narrows the query"
    DEFINE = "`define` that names the view, or operator rights: admin"
    TOPIC = "produce or consume that names the topic, or operator rights: read"
    PRODUCE = "produce that names the topic"
    CONSUME = "consume that names the topic"
    GROUP = "groups that name the group; the handler checks which topics are read"
    SUBJECT = "subjects that name the subject, or its topic's produce or consume, or operator rights: read"
    REGISTER = "register that names the subject"
    READ = "operator rights: read"
    OPERATE = "operator rights: operate"
    ADMIN = "operator rights: admin"


LEVELS = {
    Requirement.READ: Operator.READ,
    Requirement.OPERATE: Operator.OPERATE,
    Requirement.ADMIN: Operator.ADMIN,
}
_CHANGES = {Requirement.DEFINE, Requirement.REGISTER, Requirement.OPERATE, Requirement.ADMIN}
"""What is required to change a stack: such requests are in the audit log."""


class Route(NamedTuple):
    """A row of a server's table. ``doc`` is what the reference page adds to the handler's docstring."""

    method: str
    path: str
    handler: Handler
    requirement: Requirement
    doc: str = ""
    allow_head: bool = True

    @property
    def name(self) -> str:
        """``METHOD /path``."""
        return f"{self.method} {self.path}"

    def definition(self) -> web.RouteDef:
        """Create what aiohttp's router is given."""
        options = {"allow_head": self.allow_head} if self.method == "GET" else {}
        return web.RouteDef(self.method, self.path, self.handler, options)


Check = Callable[[Grant, Requirement, Mapping[str, str]], None]
"""Raises Forbidden unless a grant meets a requirement; the mapping has the names in the path."""
Credentials = Callable[[web.Request], Awaitable[Grant]]

_GRANT: web.RequestKey[Grant] = web.RequestKey("grant", Grant)
_NARROWED: web.RequestKey[bool] = web.RequestKey("narrowed", bool)


def check_requirement(grant: Grant, requirement: Requirement, path: Mapping[str, str]) -> None:
    """Raise Forbidden unless a grant meets a requirement; `Check` for routes about views."""
    view = path.get("view", path.get("name"))
    if requirement in LEVELS:
        grant.require_operator(LEVELS[requirement])
    elif view is not None and requirement is Requirement.DEFINE:
        grant.require_define(view)
    elif view is not None and requirement in (Requirement.VIEW, Requirement.ROWS):
        grant.require_view(view)


class Authorization:
    """Checks the requests of one server against its table.

    ``canonical`` turns a route's path into the one in the table, and ``credentials`` finds the grant of a
    request (by default from its headers). With ``private``, shared caches must not store responses
    to users. All methods raise AccessError, TooManyRequests or StoreUnavailable.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        authenticator: Authenticator,
        limiter: Limiter,
        *,
        check: Check = check_requirement,
        credentials: Credentials | None = None,
        canonical: Callable[[str], str] = lambda path: path,
        private: bool = False,
    ) -> None:
        self.authenticator = authenticator
        self.limiter = limiter
        self._requirements = {route.name: route.requirement for route in routes}
        self._check = check
        self._credentials = credentials or (lambda request: authenticator.by_headers(request.headers))
        self._canonical = canonical
        self._private = private and authenticator.on

    async def authorize(self, request: web.Request) -> Requirement:
        """Check that a request's credentials allow its route; `grant_of` returns the caller's grant then."""
        requirement = self._requirement(self._route_name(request))
        request[_GRANT] = OPEN
        if requirement is not Requirement.PUBLIC:
            await self.limiter.count_arrival(client_of(request), request.content_length or 0)
            request[_GRANT] = await self._credentials(request)
            self._check(request[_GRANT], requirement, request.match_info)
        return requirement

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass an authorized request to its handler, and charge its user for it."""
        requirement = await self.authorize(request)
        grant = grant_of(request)
        await self.limiter.count_request(grant, request.content_length or 0)
        with self.limiter.metered(grant):
            response = await measured(handler(request))
        if requirement is Requirement.ROWS and response.status < 300 and not request.get(_NARROWED):
            log.error("%s answered without narrowing its query", self._route_name(request))
            raise Forbidden(
                "these rows cannot be served to a token or key",
                hint="this is a bug in the server; please report it",
            )
        if self._private and requirement is not Requirement.PUBLIC:
            response.headers["Cache-Control"] = _private(response.headers.get("Cache-Control", ""))
            response.headers.add("Vary", "Authorization, X-API-Key")
        return response

    def attempt(self, request: web.Request) -> Attempt:
        """Describe a request for the audit log."""
        user = request.get(_GRANT, OPEN).user
        name = self._route_name(request)
        return Attempt(name or request.method, user, self._requirement(name) in _CHANGES)

    def _requirement(self, name: str) -> Requirement:
        """Return what a route requires; a request without a route is public: it is a 404."""
        return self._requirements.get(name, Requirement.ADMIN) if name else Requirement.PUBLIC

    def _route_name(self, request: web.Request) -> str:
        """Return the name of a request's route in the table; "" when no route has its path and method."""
        resource = request.match_info.route.resource
        method = "GET" if request.method == "HEAD" else request.method
        return f"{method} {self._canonical(resource.canonical)}" if resource is not None else ""


AUTHORIZATION: web.AppKey[Authorization] = web.AppKey("authorization", Authorization)


def grant_of(request: web.Request) -> Grant:
    """Return what the caller may do; `OPEN` where authorization is off."""
    return request[_GRANT]


def grants_of(request: web.Request) -> GrantSet:
    """Return what the caller's rows are read under."""
    return GrantSet((grant_of(request),))


def narrow_query(request: web.Request, query: Query) -> Query:
    """Return the query that is served to the caller in place of the requested one; raises Forbidden."""
    narrow = grants_of(request).narrow(query)
    request[_NARROWED] = True
    return narrow


def challenge(error: AccessError) -> str:
    """Write the WWW-Authenticate header that says why a caller was refused (RFC 6750)."""
    scheme = 'Bearer realm="distributary"'
    if isinstance(error, CredentialsMissing):
        return scheme
    code = "invalid_token" if isinstance(error, TokenRefused) else "insufficient_scope"
    reason = f', error_description="{error.reason}"' if isinstance(error, TokenRefused) else ""
    return f'{scheme}, error="{code}"{reason}'


def _private(cache: str) -> str:
    words = [word.strip() for word in cache.split(",")] if cache else ["no-cache"]
    return ", ".join(["private", *(word for word in words if word not in ("public", "private"))])
