"""From the credentials of a caller to its grant: what servers check callers with."""

from __future__ import annotations

import base64
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from distributary.auth.api_keys import ApiKeys, is_key, unknown_key
from distributary.auth.claims import grant_of_token
from distributary.auth.grant import OPEN, STACK, Grant
from distributary.auth.jwt_checks import Header, Rules, read_header, refuse, verify
from distributary.auth.revocations import Read, Revocations, is_revoked, names_of
from distributary.auth.token_issuer import StackToken
from distributary.auth.verification_keys import KeySet, VerifyingKey, of_pem, of_secret
from distributary.config import Config
from distributary.errors import ConfigError, CredentialsMissing, TokenRefused

_OF_KEYS = ("algorithm", "unknown-key", "signature")
"""Reasons for a refusal that other keys may change."""

CACHE_SECONDS = 1.0
"""For which a verified token is not verified again; a withdrawn key is accepted that much longer."""
MAX_CACHED = 1_000


class Authenticator:
    """Checks tokens and API keys by the settings of ``[auth]``.

    If nothing is set there (``on`` is false), every caller is `OPEN`. A caller with the stack's own token is
    `STACK` in any case. All methods raise AccessError or StoreUnavailable; no caller is accepted because a
    check could not be made.
    """

    def __init__(
        self,
        config: Config,
        revoked: Read,
        *,
        keys: KeySet | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the keys; raises ConfigError for those that cannot be used.

        ``revoked`` is ``ReaderStore.revoked``; ``keys`` replace those at ``auth.jwks_url``.
        """
        auth = config.auth
        self.on = auth.on
        self._auth = auth
        self._rules = Rules.of(auth)
        self._stack = StackToken(config.data_dir)
        self._own = own_keys(config)
        self._set = keys or (KeySet.of(auth) if auth.jwks_url else None)
        self._api_keys = ApiKeys.of(config)
        self._revocations = Revocations(revoked, ttl=auth.revocation_delay)
        self._clock = clock
        self._verified: OrderedDict[str, tuple[float, Grant]] = OrderedDict()  # by token: when

    async def by_token(self, token: str | None, *, channel: str = "") -> Grant:
        """Return what a token allows; None or "" is no token. Some are valid for one channel only."""
        if token and self._stack.matches(token):
            return STACK
        if not self.on:
            return OPEN
        if not token:
            raise _missing()
        grant = self._find_cached(token)
        if grant is None:
            claims = await self._verify(token)
            grant = grant_of_token(claims, claim=self._auth.claim, default_views=self._auth.default_views)
            self._cache(token, grant)
        await self._check_revoked(grant)
        if grant.channel and grant.channel != channel:
            raise refuse("claims", "the token is for one channel only", "get a token without channel")
        return grant

    async def by_key(self, key: str) -> Grant:
        """Return what an API key allows."""
        if not self.on:
            return OPEN
        grant = self._api_keys.find(key)
        if grant.is_expired(int(self._clock() * 1000)):
            raise _expired()
        await self._check_revoked(grant)
        return grant

    async def by_headers(self, headers: Mapping[str, str]) -> Grant:
        """Return what the headers of a request allow; ``headers`` must ignore case.

        ``Authorization: Bearer TOKEN``, ``Authorization: ApiKey KEY`` or ``X-API-Key: KEY``, one of them.
        With ``Basic``, the only scheme of some registry clients, the password is a token or key.
        """
        authorization, key = headers.get("Authorization"), headers.get("X-API-Key")
        if authorization is None and key is None:
            if not self.on:
                return OPEN
            raise _missing()
        if self.on and authorization is not None and key is not None:
            raise refuse("malformed", "both Authorization and X-API-Key are given", "give one")
        scheme, _, value = (
            ("ApiKey", "", key or "") if authorization is None else authorization.partition(" ")
        )
        match scheme.lower():
            case "bearer":
                return await self.by_token(value.strip())
            case "apikey":
                return await self.by_key(value.strip())
            case "basic":
                password = _password(value)
                return await (self.by_key if is_key(password) else self.by_token)(password)
        if not self.on:
            return OPEN
        raise refuse("malformed", "Authorization has an unknown scheme", "send Bearer TOKEN or ApiKey KEY")

    def seconds_left(self, grant: Grant) -> int:
        """Return in how many seconds a grant expires, at least 1; 0 if it never does."""
        if grant.expires_at is None:
            return 0
        return max(1, math.ceil(grant.expires_at / 1000 - self._clock()))

    def find_expired(self, grants: Iterable[Grant]) -> list[tuple[Grant, TokenRefused]]:
        """Return which of these grants have expired, the leeway included; needs no store."""
        now = int(self._clock() * 1000)
        return [(grant, _expired()) for grant in grants if grant.is_expired(now, self._rules.leeway)]

    async def find_ended(self, grants: Iterable[Grant]) -> list[tuple[Grant, TokenRefused]]:
        """Return which of these grants are no longer valid, and why; for connections that stay open."""
        checked = list(grants) if self.on else []
        ended = self.find_expired(checked)
        ended += [(grant, unknown_key()) for grant in checked if not self._api_keys.is_current(grant)]
        names = {name for grant in checked if grant.revocable for name in names_of(grant)}
        times = await self._revocations.read(sorted(names)) if names else {}
        return ended + [(grant, _revoked()) for grant in checked if is_revoked(grant, times)]

    async def _check_revoked(self, grant: Grant) -> None:
        if is_revoked(grant, {name: await self._revocations.revoked_at(name) for name in names_of(grant)}):
            raise _revoked()

    def _find_cached(self, token: str) -> Grant | None:
        """Return what a token was found to allow shortly before, unless it has expired since."""
        found = self._verified.get(token)
        if found is None:
            return None
        since, grant = found
        now = self._clock()
        if not 0 <= now - since < CACHE_SECONDS or grant.is_expired(int(now * 1000), self._rules.leeway):
            del self._verified[token]
            return None
        return grant

    def _cache(self, token: str, grant: Grant) -> None:
        self._verified[token] = (self._clock(), grant)
        while len(self._verified) > MAX_CACHED:
            self._verified.popitem(last=False)

    async def _verify(self, token: str) -> dict[str, Any]:
        header = read_header(token)
        try:
            return verify(token, self._own, self._rules, self._clock())
        except TokenRefused as error:
            if self._set is None or header.algorithm.startswith("HS") or error.reason not in _OF_KEYS:
                raise
        keys = await self._set.keys()
        try:
            return verify(token, keys, self._rules, self._clock())
        except TokenRefused as error:
            if error.reason not in _OF_KEYS or _has_key(keys, header) or not await self._set.refresh():
                raise
        return verify(token, await self._set.keys(), self._rules, self._clock())


def own_keys(config: Config) -> tuple[VerifyingKey, ...]:
    """Read the keys that are in the configuration; raises ConfigError with the file that cannot be used."""
    auth = config.auth
    folder = config.path.parent if config.path else Path()
    keys = [of_secret(secret) for secret in (auth.hmac_secret, *auth.previous_hmac_secrets) if secret]
    for name in auth.public_keys:
        file = folder / Path(name).expanduser()
        try:
            keys.append(of_pem(file.read_bytes()))
        except OSError as error:
            raise ConfigError(f"auth.public_keys: {file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(
                f"auth.public_keys: {file}: {error}",
                hint="It must be an RSA, EC or Ed25519 public key",
            ) from None
    return tuple(keys)


def _has_key(keys: Iterable[VerifyingKey], header: Header) -> bool:
    """True if a key set has the key that a token names: then fetching it again is of no use."""
    return header.kid is not None and any(key.kid == header.kid for key in keys)


def _password(value: str) -> str:
    """Read the password of a ``Basic`` header; the user in it is ignored."""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (ValueError, UnicodeDecodeError):
        raise refuse(
            "malformed", "Authorization is not valid: Basic must have a user and a password"
        ) from None


def _missing() -> CredentialsMissing:
    return CredentialsMissing(
        "a token or an API key is required",
        hint="send Authorization: Bearer TOKEN, or X-API-Key: KEY; for commands, set DISTRIBUTARY_TOKEN",
    )


def _revoked() -> TokenRefused:
    return refuse("revoked", "the token was revoked", "get a new token")


def _expired() -> TokenRefused:
    return refuse("expired", "the token has expired", "get a new token")
