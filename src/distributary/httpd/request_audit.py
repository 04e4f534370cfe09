"""The audit of HTTP requests: one middleware for every server, outside of all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from distributary.auth.audit import AuditLog
from distributary.httpd.listener import client_of

REFUSED = (401, 403, 421)
_REASON = re.compile(r'error_description="([a-z-]+)"')


class Attempt(NamedTuple):
    """What a request tried: the name of its route, by whom, and whether that changes the stack."""

    action: str
    user: str
    changes: bool


def audit_middleware(audit: AuditLog, attempt: Callable[[web.Request], Attempt]) -> Middleware:
    """Create the middleware that logs what was refused, and what changed the stack or tried to.

    Errors must be responses by the time they get here; ``attempt`` is called after that.
    """

    @web.middleware
    async def log_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        tried = attempt(request)
        refused = response.status in REFUSED
        if refused or tried.changes:
            audit.write(
                tried.action,
                "refused" if refused else "ok" if response.status < 400 else "failed",
                user=tried.user,
                address=client_of(request),
                target=", ".join(request.match_info.values()),
                reason=_reason(response) if response.status >= 400 else "",
            )
        return response

    return log_request


def _reason(response: web.StreamResponse) -> str:
    """Return why a request was refused: the reason that its caller was sent, else the status."""
    described = _REASON.search(response.headers.get("WWW-Authenticate", ""))
    return described[1] if described else str(response.status)
