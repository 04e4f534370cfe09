"""The audit of HTTP requests: one middleware for every server, outside of all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from distributary.auth.audit import Audit
from distributary.httpd.listener import client_of

REFUSED = (401, 403, 421)
_REASON = re.compile(r'error_description="([a-z-]+)"')


class Attempt(NamedTuple):
    """What a request tried: the name of its route, by whom, and whether that changes the stack."""

    action: str
    user: str
    changes: bool


def audited(audit: Audit, attempt: Callable[[web.Request], Attempt]) -> Middleware:
    """Make the middleware that writes down what was refused, and what changed the stack or tried to.

    Errors must be replies by the time they come here; ``attempt`` is asked after that.
    """

    @web.middleware
    async def noted(request: web.Request, handler: Handler) -> web.StreamResponse:
        reply = await handler(request)
        tried = attempt(request)
        refused = reply.status in REFUSED
        if refused or tried.changes:
            audit.note(
                tried.action,
                "refused" if refused else "ok" if reply.status < 400 else "failed",
                user=tried.user,
                address=client_of(request),
                target=", ".join(request.match_info.values()),
                reason=_reason(reply) if reply.status >= 400 else "",
            )
        return reply

    return noted


def _reason(reply: web.StreamResponse) -> str:
    """Say why a request was refused: as the caller was told, else by the status alone."""
    told = _REASON.search(reply.headers.get("WWW-Authenticate", ""))
    return told[1] if told else str(reply.status)


def route_of(request: web.Request, path: Callable[[str], str] = lambda path: path) -> str:
    """Name the route of a request; '' where there is none. ``path`` writes its address as tables have it."""
    resource = request.match_info.route.resource
    method = "GET" if request.method == "HEAD" else request.method
    return f"{method} {path(resource.canonical)}" if resource is not None else ""
