"""Tokens that we sign ourselves, by HS256: for trying, and for our own commands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jwt

from distributary.config import Permit
from distributary.errors import UsageError
from distributary.model.credentials import of_environment
from distributary.permit.grant import of_token

_OWN_SECONDS = 60.0


def make_token(
    permit: Permit, user: str, allowed: Mapping[str, Any], seconds: float, now: float | None = None
) -> tuple[str, dict[str, Any]]:
    """Sign a token with the configured secret; gives it and its claims.

    ``allowed`` has names of `distributary.permit.grant.CLAIMS`. Raises UsageError when there is no secret,
    and TokenRefused for claims that would be refused.
    """
    if not permit.hmac_secret:
        raise UsageError(
            "permit.hmac_secret is not set, so no token can be made here",
            hint="Set it (DISTRIBUTARY_PERMIT_HMAC_SECRET), or get one where your tokens are signed",
        )
    moment = int(time.time() if now is None else now)
    claims: dict[str, Any] = {"sub": user, "iat": moment, "exp": moment + int(seconds)}
    claims |= {"aud": permit.audience} if permit.audience else {}
    claims |= {"iss": permit.issuer} if permit.issuer else {}
    claims |= {permit.claim: dict(allowed)} if permit.claim else dict(allowed)
    of_token(claims, claim=permit.claim, default_views=permit.default_views)
    return jwt.encode(claims, permit.hmac_secret, algorithm="HS256"), claims


def own_headers(env: Mapping[str, str], permit: Permit | None = None) -> dict[str, str]:
    """Say with which header our own commands call a control API.

    A token or API key of the environment; else, where ``permit`` is of the stack that is called, a token that
    is signed with its secret for a minute: whoever has the secret may do everything anyhow. Else none.
    """
    token, key = of_environment(env)
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if not token and permit is not None and permit.hmac_secret:
        token = own_token(permit)
    return {"Authorization": f"Bearer {token}"} if token else {}


def own_token(permit: Permit) -> str:
    """Sign a token that allows everything for a minute; raises UsageError when there is no secret."""
    return make_token(permit, "distributary", {"admin": True, "views": ["*"]}, _OWN_SECONDS)[0]
