"""The keys that tokens are verified with: a secret, PEM files, or a key set (JWKS) that is fetched.

Each key is bound to the algorithms of its own type, never to what a token says: so a token that claims HS256
is not checked against an RSA key, whose public half is known to all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from distributary.auth.client_security import Trust
from distributary.config import Auth
from distributary.errors import KeysUnavailable

log = logging.getLogger(__name__)

_OF_SECRET = {"HS256": 32, "HS384": 48, "HS512": 64}
"""By algorithm: the bytes that a secret must have for it (RFC 7518, section 3.2)."""
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_OF_EDWARDS = ("EdDSA",)
ALGORITHMS = (*_OF_SECRET, *_OF_RSA, *_OF_CURVE.values(), *_OF_EDWARDS)
MIN_RSA_BITS = 2048
MAX_KEYS = 100
"""Keys of a key set that are used: each may cost a check of a signature."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key and the algorithms it is for. ``kid`` is its name in a key set; None fits any token."""

    algorithms: tuple[str, ...]
    material: Any = field(repr=False)
    kid: str | None = None

    def fits(self, algorithm: str, kid: str | None) -> bool:
        """True if a token with this header may be checked with it."""
        return algorithm in self.algorithms and (self.kid is None or kid is None or self.kid == kid)


def of_secret(secret: str) -> VerifyingKey:
    """Create the key of HS256, and of HS384 and HS512 if the secret is long enough for them."""
    material = secret.encode()
    return VerifyingKey(tuple(name for name, least in _OF_SECRET.items() if len(material) >= least), material)


def of_pem(text: bytes) -> VerifyingKey:
    """Parse a public key; raises ValueError with the reason."""
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is not a public key in PEM format") from None
    return _bound(key, None)


def of_jwks(text: bytes) -> tuple[VerifyingKey, ...]:
    """Parse a key set; keys that cannot verify tokens are left out. Raises ValueError for anything else."""
    try:
        document = json.loads(text)
        found = document["keys"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ValueError('it is not a key set: {"keys": […]}') from None
    if not isinstance(found, list):
        raise ValueError('it is not a key set: "keys" must be a list')
    keys = []
    for number, jwk in enumerate(found[:MAX_KEYS], 1):
        try:
            keys.append(_of_jwk(jwk))
        except (ValueError, TypeError, PyJWTError, UnsupportedAlgorithm) as error:
            log.info("ignoring key %d of the key set: %s", number, error)
    return tuple(keys)


def _of_jwk(jwk: Any) -> VerifyingKey:
    if not isinstance(jwk, dict):
        raise ValueError("it is not an object")
    if "d" in jwk:
        raise ValueError("it contains a private key, which is public there")
    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ("verify",)):
        raise ValueError("it is not for signatures")
    kid = jwk.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise ValueError("its kid is not a string")
    key = _bound(_material(jwk), kid)
    if "alg" not in jwk:
        return key
    if jwk["alg"] not in key.algorithms:
        raise ValueError(f"its alg is {str(jwk['alg'])[:40]!r}, not one of {', '.join(key.algorithms)}")
    return replace(key, algorithms=(jwk["alg"],))


def _material(jwk: Mapping[str, Any]) -> Any:
    match jwk.get("kty"):
        case "RSA":
            return RSAAlgorithm.from_jwk(dict(jwk))
        case "EC":
            return ECAlgorithm.from_jwk(dict(jwk))
        case "OKP":
            return OKPAlgorithm.from_jwk(dict(jwk))
        case _:
            # A shared secret ("oct") must not be in a public key set.
            raise ValueError("its type must be RSA, EC or OKP")


def _bound(key: Any, kid: str | None) -> VerifyingKey:
    """Bind a public key to the algorithms of its type."""
    if isinstance(key, RSAPublicKey):
        if key.key_size < MIN_RSA_BITS:
            raise ValueError(f"an RSA key of {key.key_size} bits is too short: at least {MIN_RSA_BITS}")
        return VerifyingKey(_OF_RSA, key, kid)
    if isinstance(key, EllipticCurvePublicKey):
        if key.curve.name not in _OF_CURVE:
            raise ValueError(f"its curve {key.curve.name} is none of P-256, P-384 and P-521")
        return VerifyingKey((_OF_CURVE[key.curve.name],), key, kid)
    if isinstance(key, Ed25519PublicKey):
        return VerifyingKey(_OF_EDWARDS, key, kid)
    raise ValueError("it is not an RSA, EC or Ed25519 public key")


log = logging.getLogger(__name__)

MAX_BYTES = 1 << 20
RETRY = 2.0
"""Seconds until a fetch is retried while there are no keys at all."""

Fetch = Callable[[], Awaitable[bytes]]


class KeySet:
    """The keys at a JWKS URL: fetched when they are needed, and kept while the URL does not respond.

    They are fetched again after ``ttl`` seconds, but not within ``refetch`` seconds of the last fetch, so
    that tokens with made-up key names cause no load elsewhere. ``max_age`` is how long they are used while
    they cannot be fetched, since one may have been withdrawn. Concurrent callers wait for the same fetch.
    """

    def __init__(
        self,
        fetch: Fetch,
        *,
        ttl: float,
        refetch: float,
        max_age: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._max_age = max_age
        self._ttl = ttl
        self._refetch = refetch
        self._clock = clock
        self._keys: tuple[VerifyingKey, ...] | None = None
        self._fetched = self._tried = float("-inf")
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, auth: Auth) -> KeySet:
        """Create the one of the configuration."""
        return cls(
            lambda: fetch(auth.jwks_url, auth.jwks_timeout),
            ttl=auth.jwks_ttl,
            refetch=auth.jwks_min_interval,
            max_age=auth.jwks_max_age,
        )

    async def keys(self) -> tuple[VerifyingKey, ...]:
        """Return the keys; raises KeysUnavailable if they were never fetched, or too long ago."""
        if self._clock() - self._fetched >= self._ttl:
            await self._try()
        if self._keys is None:
            raise KeysUnavailable(
                "cannot fetch the keys that tokens are verified with", hint="check auth.jwks_url"
            )
        if self._clock() - self._fetched >= self._max_age:
            raise KeysUnavailable(
                "the keys that tokens are verified with are too old, and cannot be fetched",
                hint="check that auth.jwks_url responds; see auth.jwks_max_age",
            )
        return self._keys

    async def refresh(self) -> bool:
        """Fetch again because a token names an unknown key; False if the last fetch was too recent."""
        return await self._try()

    async def _try(self) -> bool:
        if self._task is None:
            wait = self._refetch if self._keys is not None else min(RETRY, self._refetch)
            if self._clock() - self._tried < wait:
                return False
            self._tried = self._clock()
            self._task = asyncio.create_task(self._read())
            self._task.add_done_callback(self._done)
        # Shielded: a caller that is cancelled must not cancel the fetch of the others.
        await asyncio.shield(self._task)
        return True

    async def _read(self) -> None:
        try:
            self._keys = of_jwks(await self._fetch())
            self._fetched = self._clock()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            fallback = "using the old keys" if self._keys is not None else "there are no keys yet"
            log.warning("cannot fetch the key set (%s); %s", _describe(error), fallback)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None


async def fetch(url: str, timeout: float) -> bytes:
    """Fetch a URL; raises aiohttp.ClientError, TimeoutError or ValueError.

    Redirects are not followed: who can redirect could sign tokens.
    """
    limit, headers = aiohttp.ClientTimeout(total=timeout), {"Accept": "application/json"}
    async with (
        aiohttp.ClientSession(timeout=limit, trust_env=True) as http,
        http.get(url, allow_redirects=False, headers=headers, ssl=Trust().context(url) or True) as reply,
    ):
        if reply.status != 200:
            raise ValueError(f"HTTP {reply.status}")
        text = await reply.content.read(MAX_BYTES + 1)
        while len(text) <= MAX_BYTES and (more := await reply.content.read(MAX_BYTES + 1 - len(text))):
            text += more
        if len(text) > MAX_BYTES:
            raise ValueError(f"over {MAX_BYTES} bytes")
        return text


def _describe(error: Exception) -> str:
    """Describe an error without the URL, which may contain a password."""
    return str(error) if type(error) is ValueError else type(error).__name__
