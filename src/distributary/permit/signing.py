"""The keys that tokens are checked with: of a secret, of PEM files, of a key set (JWKS). No I/O here.

Each key is bound to one algorithm by what it is, never by what a token says: so a token that claims HS256
is not checked against an RSA key, whose public half everybody knows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

log = logging.getLogger(__name__)

ALGORITHMS = ("HS256", "RS256", "ES256")
MIN_RSA_BITS = 2048
MAX_KEYS = 100
"""Keys of a key set that are looked at: each may cost a check of a signature."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key and the one algorithm it is for. ``kid`` is its name in a key set; None fits any token."""

    algorithm: str
    material: Any = field(repr=False)
    kid: str | None = None

    def fits(self, algorithm: str, kid: str | None) -> bool:
        """Say whether a token with these words in its header may be checked with it."""
        return self.algorithm == algorithm and (self.kid is None or kid is None or self.kid == kid)


def of_secret(secret: str) -> VerifyingKey:
    """Make the key of HS256."""
    return VerifyingKey("HS256", secret.encode())


def of_pem(text: bytes) -> VerifyingKey:
    """Read a public key; raises ValueError with what is wrong with it."""
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is not the PEM text of a public key") from None
    return _bound(key, None)


def of_jwks(text: bytes) -> tuple[VerifyingKey, ...]:
    """Read a key set; keys that are of no use for tokens are left out. Raises ValueError when it is none."""
    try:
        document = json.loads(text)
        found = document["keys"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ValueError('it is not a key set: {"keys": […]}') from None
    if not isinstance(found, list):
        raise ValueError('it is not a key set: "keys" is no list')
    keys = []
    for place, jwk in enumerate(found[:MAX_KEYS]):
        try:
            keys.append(_of_jwk(jwk))
        except (ValueError, TypeError, PyJWTError, UnsupportedAlgorithm) as error:
            log.info("key %d of the key set is left out: %s", place + 1, error)
    return tuple(keys)


def _of_jwk(jwk: Any) -> VerifyingKey:
    if not isinstance(jwk, dict):
        raise ValueError("it is no object")
    if "d" in jwk:
        raise ValueError("it holds a private key, which everybody can read there")
    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ("verify",)):
        raise ValueError("it is not for signatures")
    kid = jwk.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise ValueError("its kid is no text")
    key = _bound(_material(jwk), kid)
    if jwk.get("alg", key.algorithm) != key.algorithm:
        raise ValueError(f"only {' and '.join(ALGORITHMS[1:])} are taken")
    return key


def _material(jwk: Mapping[str, Any]) -> Any:
    match jwk.get("kty"):
        case "RSA":
            return RSAAlgorithm.from_jwk(dict(jwk))
        case "EC":
            return ECAlgorithm.from_jwk(dict(jwk))
        case _:
            # A shared secret ("oct") has no place where everybody can read it.
            raise ValueError("its type is neither RSA nor EC")


def _bound(key: Any, kid: str | None) -> VerifyingKey:
    """Bind a public key to the algorithm that it is for."""
    if isinstance(key, RSAPublicKey):
        if key.key_size < MIN_RSA_BITS:
            raise ValueError(f"an RSA key of {key.key_size} bits is too short: at least {MIN_RSA_BITS}")
        return VerifyingKey("RS256", key, kid)
    if isinstance(key, EllipticCurvePublicKey):
        if not isinstance(key.curve, SECP256R1):
            raise ValueError("its curve is not P-256")
        return VerifyingKey("ES256", key, kid)
    raise ValueError("it is neither an RSA nor an EC public key")
