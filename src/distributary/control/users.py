"""``/v1/users``: end what a user was given."""

from __future__ import annotations

from aiohttp import web

from distributary.control.context import CONTEXT
from distributary.errors import BadRequest
from distributary.permit.grant import MAX_USER


async def revoke(request: web.Request) -> web.Response:
    """``POST /v1/users/{user}/revoke``: tokens that the user was issued before now no longer count."""
    user = request.match_info["user"]
    if len(user) > MAX_USER or not user.isprintable():
        raise BadRequest("that is no user's name", hint=f"at most {MAX_USER} characters: a token's sub")
    moment = await request.app[CONTEXT].reader.revoke(user)
    return web.json_response({"user": user, "revoked_before": moment})
