"""From what a caller shows to what it may do: the one thing that servers ask."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from distributary.config import Config
from distributary.errors import ConfigError, CredentialsMissing, TokenRefused
from distributary.permit.grant import OPEN, Grant, of_token
from distributary.permit.jwks import KeySet
from distributary.permit.keys import ApiKeys
from distributary.permit.revoked import Read, Revocations
from distributary.permit.signing import VerifyingKey, of_pem, of_secret
from distributary.permit.tokens import Header, Rules, read_header, refuse, verify

_OF_KEYS = ("algorithm", "unknown-key", "signature")
"""Reasons that other keys may change."""


class Gate:
    """Checks tokens and API keys by the settings of ``[permit]``.

    Where nothing is set there (``on`` is false) everybody is `OPEN`. All calls raise errors of the branch
    AccessError, or StoreUnavailable; nobody is let in because something could not be asked.
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

        ``revoked`` is ``ReaderStore.revoked``; ``keys`` takes the place of those at ``permit.jwks_url``.
        """
        permit = config.permit
        self.on = permit.on
        self._permit = permit
        self._rules = Rules.of(permit)
        self._own = own_keys(config)
        self._set = keys or (KeySet.of(permit) if permit.jwks_url else None)
        self._api_keys = ApiKeys(permit.keys, default_views=permit.default_views)
        self._revocations = Revocations(revoked, ttl=permit.revoked_ttl)
        self._clock = clock

    async def by_token(self, token: str | None, *, channel: str = "") -> Grant:
        """Say what a token allows; None or "" is no token. One that names a channel is for that alone."""
        if not self.on:
            return OPEN
        if not token:
            raise _missing()
        claims = await self._verified(token)
        grant = of_token(claims, claim=self._permit.claim, default_views=self._permit.default_views)
        if grant.revoked(await self._revocations.of(grant.user)):
            raise _revoked()
        if grant.channel and grant.channel != channel:
            raise refuse(
                "claims", "the token is for one channel, and not for this", "get one without channel"
            )
        return grant

    def by_key(self, key: str) -> Grant:
        """Say what an API key allows."""
        return self._api_keys.find(key) if self.on else OPEN

    async def by_headers(self, headers: Mapping[str, str]) -> Grant:
        """Say what a request allows by its headers; ``headers`` finds them whatever their case.

        ``Authorization: Bearer TOKEN``, ``Authorization: ApiKey KEY`` or ``X-API-Key: KEY``, one of them.
        """
        if not self.on:
            return OPEN
        said, key = headers.get("Authorization"), headers.get("X-API-Key")
        if said is None and key is None:
            raise _missing()
        if said is not None and key is not None:
            raise refuse("malformed", "both Authorization and X-API-Key are given", "give one")
        scheme, _, value = ("ApiKey", "", key or "") if said is None else said.partition(" ")
        match scheme.lower():
            case "bearer":
                return await self.by_token(value.strip())
            case "apikey":
                return self.by_key(value.strip())
        raise refuse("malformed", "Authorization has another scheme", "write Bearer TOKEN or ApiKey KEY")

    def ttl(self, grant: Grant) -> int:
        """Say in how many seconds a grant ends, at least 1; 0 when it has no end."""
        if grant.expires_at is None:
            return 0
        return max(1, math.ceil(grant.expires_at / 1000 - self._clock()))

    def expired(self, grants: Iterable[Grant]) -> list[tuple[Grant, TokenRefused]]:
        """Say which of these grants are beyond their time and its grace; asks nobody."""
        now = int(self._clock() * 1000)
        return [(grant, _expired()) for grant in grants if grant.expired(now, self._rules.leeway)]

    async def ended(self, grants: Iterable[Grant]) -> list[tuple[Grant, TokenRefused]]:
        """Say which of these grants no longer count, and why; for connections that stay open."""
        held = list(grants) if self.on else []
        over = self.expired(held)
        users = {grant.user for grant in held if grant.revocable}
        moments = await self._revocations.among(sorted(users)) if users else {}
        return over + [(grant, _revoked()) for grant in held if grant.revoked(moments.get(grant.user))]

    async def _verified(self, token: str) -> dict[str, Any]:
        header = read_header(token)
        try:
            return verify(token, self._own, self._rules, self._clock())
        except TokenRefused as error:
            if self._set is None or header.algorithm == "HS256" or error.reason not in _OF_KEYS:
                raise
        keys = await self._set.keys()
        try:
            return verify(token, keys, self._rules, self._clock())
        except TokenRefused as error:
            if error.reason not in _OF_KEYS or _named(header, keys) or not await self._set.newer():
                raise
        return verify(token, await self._set.keys(), self._rules, self._clock())


def own_keys(config: Config) -> tuple[VerifyingKey, ...]:
    """Read the keys that need no fetching; raises ConfigError with the file that cannot be used."""
    permit = config.permit
    folder = config.path.parent if config.path else Path()
    keys = [of_secret(permit.hmac_secret)] if permit.hmac_secret else []
    for name in permit.public_keys:
        file = folder / Path(name).expanduser()
        try:
            keys.append(of_pem(file.read_bytes()))
        except OSError as error:
            raise ConfigError(f"permit.public_keys: {file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(
                f"permit.public_keys: {file}: {error}", hint="Give a public key for RS256 or ES256"
            ) from None
    return tuple(keys)


def _named(header: Header, keys: Iterable[VerifyingKey]) -> bool:
    """Say whether the set has the very key that a token names: then fetching again finds no other."""
    return header.kid is not None and any(key.kid == header.kid for key in keys)


def _missing() -> CredentialsMissing:
    return CredentialsMissing(
        "a token or an API key is needed",
        hint="send Authorization: Bearer TOKEN, or X-API-Key: KEY; for commands, set DISTRIBUTARY_TOKEN",
    )


def _revoked() -> TokenRefused:
    return refuse("revoked", "the token was revoked", "get a new token")


def _expired() -> TokenRefused:
    return refuse("expired", "the token's time is over", "get a new token")
