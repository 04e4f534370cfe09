"""``/v1/users`` and ``/v1/tokens``: revoke all tokens of a user, or one token."""

from __future__ import annotations

from aiohttp import web

from distributary.auth.claims import MAX_ID, MAX_USER
from distributary.auth.revocations import token_name
from distributary.config.sections import Auth
from distributary.control.app_context import CONTEXT
from distributary.errors import BadRequest

_DAY = 86_400


async def revoke(request: web.Request) -> web.Response:
    """``POST /v1/users/{user}/revoke``: tokens that were issued to the user before now become invalid."""
    user = request.match_info["user"]
    if len(user) > MAX_USER or not user.isprintable():
        raise BadRequest(
            "invalid user name", hint=f"send a token's sub: at most {MAX_USER} printable characters"
        )
    context = request.app[CONTEXT]
    revoked = await context.reader.revoke(user, keep_ms=keep_ms(context.config.auth))
    return web.json_response({"user": user, "revoked_before": revoked})


async def revoke_token(request: web.Request) -> web.Response:
    """``POST /v1/tokens/{id}/revoke``: the token with this id (its jti) becomes invalid."""
    id, context = request.match_info["id"], request.app[CONTEXT]
    if len(id) > MAX_ID:
        raise BadRequest("invalid token id", hint=f"send a token's jti: at most {MAX_ID} characters")
    revoked = await context.reader.revoke(token_name(id), keep_ms=keep_ms(context.config.auth))
    return web.json_response({"id": id, "revoked": revoked})


def keep_ms(auth: Auth) -> int:
    """Return for how long (ms) a revocation is needed: until all tokens issued before it have expired.

    0 (for ever) if tokens may have any lifetime. A day is added for wrong clocks.
    """
    if not auth.max_token_age:
        return 0
    return int((auth.max_token_age + auth.leeway + _DAY) * 1000)
