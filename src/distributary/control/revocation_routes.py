"""``/v1/users`` and ``/v1/tokens``: end what a user was given, or one token."""

from __future__ import annotations

from aiohttp import web

from distributary.auth.claims import MAX_ID, MAX_USER
from distributary.auth.revocations import token_name
from distributary.config.sections import Auth
from distributary.control.app_context import CONTEXT
from distributary.errors import BadRequest

_DAY = 86_400


async def revoke(request: web.Request) -> web.Response:
    """``POST /v1/users/{user}/revoke``: tokens that the user was issued before now no longer count."""
    user = request.match_info["user"]
    if len(user) > MAX_USER or not user.isprintable():
        raise BadRequest("that is no user's name", hint=f"at most {MAX_USER} characters: a token's sub")
    context = request.app[CONTEXT]
    moment = await context.reader.revoke(user, keep_ms=keep_ms(context.config.auth))
    return web.json_response({"user": user, "revoked_before": moment})


async def revoke_token(request: web.Request) -> web.Response:
    """``POST /v1/tokens/{id}/revoke``: the token with this id (its jti) no longer counts."""
    id, context = request.match_info["id"], request.app[CONTEXT]
    if len(id) > MAX_ID:
        raise BadRequest("that is no token's id", hint=f"at most {MAX_ID} characters: its jti")
    moment = await context.reader.revoke(token_name(id), keep_ms=keep_ms(context.config.auth))
    return web.json_response({"id": id, "revoked": moment})


def keep_ms(auth: Auth) -> int:
    """Say for how long (ms) a revocation can matter: as long as a token counts that was issued before it.

    0 where tokens may live for any time. A day is added for whoever has set a clock wrong.
    """
    if not auth.max_token_age:
        return 0
    return int((auth.max_token_age + auth.leeway + _DAY) * 1000)
