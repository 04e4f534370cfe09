"""From what a caller shows to what it may do: the one thing that servers ask."""

from __future__ import annotations

import base64
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from distributary.auth.api_keys import ApiKeys, is_key, unknown_key
from distributary.auth.claims import of_token
from distributary.auth.grant import OPEN, STACK, Grant
from distributary.auth.jwt_checks import Header, Rules, read_header, refuse, verify
from distributary.auth.revocations import Read, Revocations, is_revoked, names_of
from distributary.auth.token_issuer import StackToken
from distributary.auth.verification_keys import KeySet, VerifyingKey, of_pem, of_secret
from distributary.config import Config
from distributary.errors import ConfigError, CredentialsMissing, TokenRefused

_OF_KEYS = ("algorithm", "unknown-key", "signature")
"""Reasons that other keys may change."""

REMEMBERED = 1.0
"""Seconds for which a verified token is not verified again; a withdrawn key counts that much longer."""
MAX_REMEMBERED = 1_000


class Authenticator:
    """Checks tokens and API keys by the settings of ``[auth]``.

    Where nothing is set there (``on`` is false) everybody is `OPEN`. Whoever shows the stack's own token is
    `STACK` either way. All calls raise errors of the branch AccessError, or StoreUnavailable; nobody is let
    in because something could not be asked.
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

        ``revoked`` is ``ReaderStore.revoked``; ``keys`` takes the place of those at ``auth.jwks_url``.
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
        """Say what a token allows; None or "" is no token. One that names a channel is for that alone."""
        if token and self._stack.is_it(token):
            return STACK
        if not self.on:
            return OPEN
        if not token:
            raise _missing()
        grant = self._remembered(token)
        if grant is None:
            claims = await self._verify(token)
            grant = of_token(claims, claim=self._auth.claim, default_views=self._auth.default_views)
            self._remember(token, grant)
        await self._check_revoked(grant)
        if grant.channel and grant.channel != channel:
            raise refuse(
                "claims", "the token is for one channel, and not for this", "get one without channel"
            )
        return grant

    async def by_key(self, key: str) -> Grant:
        """Say what an API key allows."""
        if not self.on:
            return OPEN
        grant = self._api_keys.find(key)
        if grant.is_expired(int(self._clock() * 1000)):
            raise _expired()
        await self._check_revoked(grant)
        return grant

    async def by_headers(self, headers: Mapping[str, str]) -> Grant:
        """Say what a request allows by its headers; ``headers`` finds them whatever their case.

        ``Authorization: Bearer TOKEN``, ``Authorization: ApiKey KEY`` or ``X-API-Key: KEY``, one of them.
        With ``Basic``, which is all that some clients of registries can send, the password is a token or key.
        """
        said, key = headers.get("Authorization"), headers.get("X-API-Key")
        if said is None and key is None:
            if not self.on:
                return OPEN
            raise _missing()
        if self.on and said is not None and key is not None:
            raise refuse("malformed", "both Authorization and X-API-Key are given", "give one")
        scheme, _, value = ("ApiKey", "", key or "") if said is None else said.partition(" ")
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
        raise refuse("malformed", "Authorization has another scheme", "write Bearer TOKEN or ApiKey KEY")

    def seconds_left(self, grant: Grant) -> int:
        """Say in how many seconds a grant ends, at least 1; 0 when it has no end."""
        if grant.expires_at is None:
            return 0
        return max(1, math.ceil(grant.expires_at / 1000 - self._clock()))

    def find_expired(self, grants: Iterable[Grant]) -> list[tuple[Grant, TokenRefused]]:
        """Say which of these grants are beyond their time and its grace; asks nobody."""
        now = int(self._clock() * 1000)
        return [(grant, _expired()) for grant in grants if grant.is_expired(now, self._rules.leeway)]

    async def find_ended(self, grants: Iterable[Grant]) -> list[tuple[Grant, TokenRefused]]:
        """Say which of these grants no longer count, and why; for connections that stay open."""
        held = list(grants) if self.on else []
        over = self.find_expired(held)
        over += [(grant, unknown_key()) for grant in held if not self._api_keys.is_current(grant)]
        names = {name for grant in held if grant.revocable for name in names_of(grant)}
        moments = await self._revocations.read(sorted(names)) if names else {}
        return over + [(grant, _revoked()) for grant in held if is_revoked(grant, moments)]

    async def _check_revoked(self, grant: Grant) -> None:
        if is_revoked(grant, {name: await self._revocations.revoked_at(name) for name in names_of(grant)}):
            raise _revoked()

    def _remembered(self, token: str) -> Grant | None:
        """Give what a token was found to allow a moment ago, unless its time is over since."""
        found = self._verified.get(token)
        if found is None:
            return None
        since, grant = found
        now = self._clock()
        if not 0 <= now - since < REMEMBERED or grant.is_expired(int(now * 1000), self._rules.leeway):
            del self._verified[token]
            return None
        return grant

    def _remember(self, token: str, grant: Grant) -> None:
        self._verified[token] = (self._clock(), grant)
        while len(self._verified) > MAX_REMEMBERED:
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
            if error.reason not in _OF_KEYS or _named(header, keys) or not await self._set.newer():
                raise
        return verify(token, await self._set.keys(), self._rules, self._clock())


def own_keys(config: Config) -> tuple[VerifyingKey, ...]:
    """Read the keys that need no fetching; raises ConfigError with the file that cannot be used."""
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
                hint="Give a public key: RSA, EC or Ed25519",
            ) from None
    return tuple(keys)


def _named(header: Header, keys: Iterable[VerifyingKey]) -> bool:
    """Say whether the set has the very key that a token names: then fetching again finds no other."""
    return header.kid is not None and any(key.kid == header.kid for key in keys)


def _password(value: str) -> str:
    """Read the password of a ``Basic`` header; the user in it says nothing."""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (ValueError, UnicodeDecodeError):
        raise refuse("malformed", "Authorization is not Basic with a user and password") from None


def _missing() -> CredentialsMissing:
    return CredentialsMissing(
        "a token or an API key is needed",
        hint="send Authorization: Bearer TOKEN, or X-API-Key: KEY; for commands, set DISTRIBUTARY_TOKEN",
    )


def _revoked() -> TokenRefused:
    return refuse("revoked", "the token was revoked", "get a new token")


def _expired() -> TokenRefused:
    return refuse("expired", "the token's time is over", "get a new token")
