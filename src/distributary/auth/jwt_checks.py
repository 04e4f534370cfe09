"""Checking a token (JWT), as a function of the token, the keys and the time. No I/O.

PyJWT checks the signature, with one algorithm at a time. The claims about time, audience and issuer are
checked here, against a clock that is passed in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jwt.api_jws import PyJWS
from jwt.exceptions import InvalidSignatureError, PyJWTError

from distributary.auth.verification_keys import ALGORITHMS, VerifyingKey
from distributary.config import Auth
from distributary.errors import TokenExpired, TokenRefused

MAX_TOKEN = 8192
"""Characters of a token, so that parsing an unverified one costs little."""

REASONS: Mapping[str, str] = {
    "malformed": "it is not a JWT, or its claims cannot be parsed",
    "too-large": f"it has over {MAX_TOKEN} characters",
    "algorithm": "its algorithm is not supported, or there is no key for it",
    "unknown-key": "its kid names a key that is not in the key set",
    "signature": "its signature does not match any key",
    "expired": "its exp is in the past",
    "no-expiry": "it has no exp, and auth.require_expiry is set",
    "not-yet": "its nbf is in the future",
    "issued-ahead": "its iat is in the future",
    "too-long": "its lifetime is longer than auth.max_token_age, or it has no iat or exp",
    "audience": "its aud does not name auth.audience",
    "issuer": "its iss is not auth.issuer",
    "claims": "its claims about views, limits and so on are invalid",
    "rows": "its row filter is invalid",
    "revoked": "its user was revoked after it was issued",
    "api-key": "unknown API key",
}
"""Every ``TokenRefused.reason``, with its description."""

_MAX_TIME = float(1 << 53)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a token must contain; see the settings of the same names."""

    audience: str = ""
    issuer: str = ""
    leeway: float = 30.0
    require_expiry: bool = True
    max_token_age: float = 0.0

    @classmethod
    def of(cls, auth: Auth) -> Rules:
        """Create them from the configuration."""
        return cls(auth.audience, auth.issuer, auth.leeway, auth.require_expiry, auth.max_token_age)


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of a token's header that choose a key. They are not verified."""

    algorithm: str
    kid: str | None


def refuse(reason: str, message: str, hint: str = "") -> TokenRefused:
    """Create the error for a reason."""
    error = (TokenExpired if reason == "expired" else TokenRefused)(message, hint=hint)
    error.reason = reason
    return error


def read_header(token: str) -> Header:
    """Parse what chooses the key; raises TokenRefused (too-large, malformed, algorithm)."""
    if len(token) > MAX_TOKEN:
        raise refuse("too-large", "the token is too large", f"at most {MAX_TOKEN} characters")
    try:
        header = PyJWS().get_unverified_header(token)
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise _malformed() from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if "crit" in header or "b64" in header:  # no critical extension is supported
        raise _malformed()
    if algorithm not in ALGORITHMS:
        raise refuse("algorithm", "the token's algorithm is not supported", _ALGORITHMS)
    return Header(algorithm, kid)


def verify(token: str, keys: Iterable[VerifyingKey], rules: Rules, now: float) -> dict[str, Any]:
    """Return the claims of a token that is valid at the time ``now`` (s); raises TokenRefused.

    The error's ``reason`` is the check that failed. The signature is checked first: nothing else is reported
    about a token whose signature is invalid.
    """
    header = read_header(token)
    same = [key for key in keys if header.algorithm in key.algorithms]
    if not same:
        raise refuse("algorithm", f"there is no key for the algorithm {header.algorithm}", _ALGORITHMS)
    fitting = [key for key in same if key.fits(header.algorithm, header.kid)]
    if not fitting:
        raise refuse("unknown-key", "the token is signed with an unknown key", "get a new token")
    claims = _claims(_payload(token, fitting, header.algorithm))
    check_times(claims, rules, now)
    _check_names(claims, rules)
    return claims


def check_times(claims: Mapping[str, Any], rules: Rules, now: float) -> None:
    """Refuse claims that have expired or are not valid yet; ``now`` is in seconds."""
    expires, begins, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None and rules.require_expiry:
        raise refuse("no-expiry", "the token has no expiry (exp)", "sign it with an exp")
    if expires is not None and now >= expires + rules.leeway:
        raise refuse("expired", "the token has expired", "get a new token")
    if begins is not None and now < begins - rules.leeway:
        raise refuse("not-yet", "the token is not valid yet (nbf)", "are the clocks right?")
    if issued is not None and now < issued - rules.leeway:
        raise refuse("issued-ahead", "the token was issued in the future (iat)", "are the clocks right?")
    if rules.max_token_age and (issued is None or expires is None or expires - issued > rules.max_token_age):
        raise refuse(
            "too-long",
            "the token's lifetime, from iat to exp, is missing or longer than allowed",
            "sign it with an iat, and an exp within auth.max_token_age of it",
        )


def _payload(token: str, keys: list[VerifyingKey], algorithm: str) -> bytes:
    for key in keys:
        try:
            done = PyJWS().decode_complete(token, key.material, algorithms=[algorithm])
        except InvalidSignatureError:
            continue
        except (PyJWTError, ValueError, TypeError, RecursionError):
            raise _malformed() from None
        payload: bytes = done["payload"]
        return payload
    raise refuse("signature", "the token's signature is invalid", "get a new token")


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise _malformed() from None
    if not isinstance(claims, dict):
        raise _malformed()
    return claims


def _check_names(claims: Mapping[str, Any], rules: Rules) -> None:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [] if audience is None else [audience]
    # A token for another audience is refused even if auth.audience is not set.
    if (audiences or rules.audience) and rules.audience not in audiences:
        raise refuse("audience", "the token is for another audience (aud)", "see auth.audience")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise refuse("issuer", "the token is from another issuer (iss)", "see auth.issuer")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("malformed", f"the token's {name} is not a number")
    if not abs(value) <= _MAX_TIME:  # written so that NaN is refused
        raise refuse("malformed", f"the token's {name} is out of range")
    return float(value)


def _malformed() -> TokenRefused:
    return refuse("malformed", "the token is not a JWT", "send three parts separated by dots")


_ALGORITHMS = f"use one of {', '.join(ALGORITHMS)} for which [auth] has a key"
