"""Tokens that we sign ourselves, by HS256: for trying, and for our own commands."""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt

from distributary.auth.claims import of_token
from distributary.config import Auth, Config
from distributary.config.private_files import read_secret, secret_file
from distributary.errors import SecretFileError, UsageError
from distributary.model.endpoints import environment_credentials

_OWN_SECONDS = 60.0


def sign_token(
    auth: Auth, user: str, allowed: Mapping[str, Any], seconds: float, now: float | None = None
) -> tuple[str, dict[str, Any]]:
    """Sign a token with the configured secret; gives it and its claims.

    ``allowed`` has names of `distributary.auth.claims.CLAIMS`. Raises UsageError when there is no secret,
    and TokenRefused for claims that would be refused.
    """
    if not auth.hmac_secret:
        raise UsageError(
            "auth.hmac_secret is not set, so no token can be made here",
            hint="Set it (DISTRIBUTARY_AUTH_HMAC_SECRET), or get one where your tokens are signed",
        )
    moment = int(time.time() if now is None else now)
    claims: dict[str, Any] = {"sub": user, "iat": moment, "exp": moment + int(seconds)}
    claims |= {"aud": auth.audience} if auth.audience else {}
    claims |= {"iss": auth.issuer} if auth.issuer else {}
    claims |= {auth.claim: dict(allowed)} if auth.claim else dict(allowed)
    of_token(claims, claim=auth.claim, default_views=auth.default_views)
    return jwt.encode(claims, auth.hmac_secret, algorithm="HS256"), claims


def own_headers(env: Mapping[str, str], config: Config | None = None) -> dict[str, str]:
    """Say with which header our own commands call a server.

    A token or API key of the environment; else, where ``config`` is of the stack that is called, its
    `own_token`. Else none.
    """
    token, key = environment_credentials(env)
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if not token and config is not None:
        token = own_token(config)
    return {"Authorization": f"Bearer {token}"} if token else {}


def own_token(config: Config) -> str:
    """Give a token that allows everything: the stack's own; '' where there is none.

    Where its folder has none, one is signed with its secret for a minute: whoever has that may do everything.
    """
    own = StackToken(config.data_dir).read()
    if own or not config.auth.hmac_secret:
        return own
    allowed = {"operator": "admin", "views": ["*"]}
    return sign_token(config.auth, "distributary", allowed, _OWN_SECONDS)[0]


log = logging.getLogger(__name__)

FILE = "token"
_PREFIX = "ds_"


class StackToken:
    """The token of one data folder; there is none until `create_stack_token` was called for it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._known = ""

    def read(self) -> str:
        """Give the token; '' where there is none. Raises SecretFileError for a file that others can read."""
        if not self._known:
            self._known = read_secret(self._file) or ""
        return self._known

    def is_it(self, token: str) -> bool:
        """Say whether this is the token; where its file cannot be trusted, none is."""
        if not token.startswith(_PREFIX):  # not worth a look at the file
            return False
        try:
            known = self.read()
        except SecretFileError as error:
            log.error("the stack's token does not count: %s", error)
            return False
        return bool(known) and hmac.compare_digest(known.encode(), token.encode("utf-8", "surrogatepass"))


def create_stack_token(folder: Path) -> str:
    """Give the token of a data folder, made now if it has none; raises SecretFileError."""
    return secret_file(folder / FILE, lambda: f"{_PREFIX}{secrets.token_urlsafe(32)}")


def ensure_token(folder: Path) -> None:
    """Have a token for administrative calls; a stack has one already, a server by itself may not.

    Where none can be kept, that is said in the log: then only those of ``[auth]`` count.
    """
    try:
        create_stack_token(folder)
    except SecretFileError as error:
        log.warning("there is no token for administrative calls but those of [auth]: %s", error)
