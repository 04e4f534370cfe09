"""Tokens that are issued here: signed by HS256, for tests and our own commands, and the stack's own token.

The stack's own token is random and allows everything. It is in a file of the data folder, so our own commands
need no settings, and a program or page that cannot read the folder cannot change the stack.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt

from distributary.auth.claims import grant_of_token
from distributary.config import Auth, Config
from distributary.config.private_files import read_secret, secret_file
from distributary.errors import SecretFileError, UsageError
from distributary.model.endpoints import environment_credentials

_OWN_SECONDS = 60.0


def sign_token(
    auth: Auth, user: str, allowed: Mapping[str, Any], seconds: float, now: float | None = None
) -> tuple[str, dict[str, Any]]:
    """Sign a token with the configured secret; returns it and its claims.

    ``allowed`` has names of `distributary.auth.claims.CLAIMS`. Raises UsageError if there is no secret, and
    TokenRefused for claims that would be refused.
    """
    if not auth.hmac_secret:
        raise UsageError(
            "auth.hmac_secret is not set, so no token can be signed here",
            hint="Set it (DISTRIBUTARY_AUTH_HMAC_SECRET), or get a token from the service that signs yours",
        )
    issued = int(time.time() if now is None else now)
    claims: dict[str, Any] = {"sub": user, "iat": issued, "exp": issued + int(seconds)}
    claims |= {"aud": auth.audience} if auth.audience else {}
    claims |= {"iss": auth.issuer} if auth.issuer else {}
    claims |= {auth.claim: dict(allowed)} if auth.claim else dict(allowed)
    grant_of_token(claims, claim=auth.claim, default_views=auth.default_views)
    return jwt.encode(claims, auth.hmac_secret, algorithm="HS256"), claims


def own_headers(env: Mapping[str, str], config: Config | None = None) -> dict[str, str]:
    """Return the headers with which our own commands call a server.

    A token or API key of the environment; else, if ``config`` is that of the stack which is called, its
    `own_token`; else none.
    """
    token, key = environment_credentials(env)
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if not token and config is not None:
        token = own_token(config)
    return {"Authorization": f"Bearer {token}"} if token else {}


def own_token(config: Config) -> str:
    """Return a token that allows everything: the stack's own; "" if there is none.

    If its folder has none, one is signed with its secret, for a minute: who has that may do everything.
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
    """The token of one data folder; it exists once `create_stack_token` was called."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._known = ""

    def read(self) -> str:
        """Return the token; "" if there is none. Raises SecretFileError for a file that others can read."""
        if not self._known:
            self._known = read_secret(self._file) or ""
        return self._known

    def matches(self, token: str) -> bool:
        """True if this is the token; if its file is not private, no token is."""
        if not token.startswith(_PREFIX):  # no need to read the file
            return False
        try:
            known = self.read()
        except SecretFileError as error:
            log.error("the stack's token is not accepted: %s", error)
            return False
        return bool(known) and hmac.compare_digest(known.encode(), token.encode("utf-8", "surrogatepass"))


def create_stack_token(folder: Path) -> str:
    """Return the token of a data folder, and create it if it does not exist; raises SecretFileError."""
    return secret_file(folder / FILE, lambda: f"{_PREFIX}{secrets.token_urlsafe(32)}")


def ensure_token(folder: Path) -> None:
    """Create the token for administrative calls if it does not exist; a stack has one already.

    A folder that cannot have one is logged: then only the tokens of ``[auth]`` are accepted.
    """
    try:
        create_stack_token(folder)
    except SecretFileError as error:
        log.warning("administrative calls need a token of [auth]: %s", error)
