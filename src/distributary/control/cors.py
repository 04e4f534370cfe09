"""Which browser pages may use the API, and the CORS replies that browsers ask for."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.control.app_context import CONTEXT

EXPOSED = "ETag, Link, Distributary-Position, Distributary-State"
"""Headers that pages may read, besides those that browsers show anyway."""


@web.middleware
async def same_site(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse pages of other sites that ``control.origins`` does not name; let the rest read the replies."""
    request.app[CONTEXT].pages.check(request.headers)
    origin = request.headers.get("Origin")
    if origin is None:
        return await handler(request)
    asked = request.headers.get("Access-Control-Request-Method")
    if request.method == "OPTIONS" and asked:
        reply: web.StreamResponse = web.Response(status=204)
        reply.headers["Access-Control-Allow-Methods"] = "GET, HEAD, POST, PUT, DELETE"
        reply.headers["Access-Control-Allow-Headers"] = (
            "Content-Type, Authorization, X-API-Key, If-None-Match"
        )
        reply.headers["Access-Control-Max-Age"] = "600"
    else:
        reply = await handler(request)
    reply.headers["Access-Control-Allow-Origin"] = origin
    reply.headers["Access-Control-Expose-Headers"] = EXPOSED
    if "Origin" not in reply.headers.get("Vary", ""):
        reply.headers.add("Vary", "Origin")
    return reply
