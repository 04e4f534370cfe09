"""Checking a token (JWT), as a function of the token, the keys and the time. No I/O.

The signature is PyJWT's to check, with one algorithm at a time. What the claims say about time, audience
and issuer is checked here, against a clock that is given.
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
"""Characters: what a token may cost before anything of it is believed."""

REASONS: Mapping[str, str] = {
    "malformed": "it is not a token, or its claims cannot be read",
    "too-large": f"it has over {MAX_TOKEN} characters",
    "algorithm": "it is not signed by an algorithm that counts, or no key is there for it",
    "unknown-key": "its kid names a key that is not in the key set",
    "signature": "no key made its signature",
    "expired": "its exp is over",
    "no-expiry": "it has no exp, and auth.require_expiry is set",
    "not-yet": "its nbf is ahead",
    "issued-ahead": "its iat is ahead",
    "too-long": "it lives longer than auth.max_token_age, or has no iat or exp",
    "audience": "its aud does not name auth.audience",
    "issuer": "its iss is not auth.issuer",
    "claims": "what it says about views, limits and so on cannot be read",
    "rows": "its filter of rows cannot be read",
    "revoked": "its user was revoked after it was issued",
    "api-key": "no such API key",
}
"""Every ``TokenRefused.reason``, in words."""

_MAX_TIME = float(1 << 53)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a token must say; see the settings of the same names."""

    audience: str = ""
    issuer: str = ""
    leeway: float = 30.0
    require_expiry: bool = True
    max_token_age: float = 0.0

    @classmethod
    def of(cls, auth: Auth) -> Rules:
        """Take them from the configuration."""
        return cls(auth.audience, auth.issuer, auth.leeway, auth.require_expiry, auth.max_token_age)


@dataclass(frozen=True, slots=True)
class Header:
    """The words of a token's header that choose a key. Nobody vouches for them."""

    algorithm: str
    kid: str | None


def refuse(reason: str, message: str, hint: str = "") -> TokenRefused:
    """Make the error of one reason."""
    error = (TokenExpired if reason == "expired" else TokenRefused)(message, hint=hint)
    error.reason = reason
    return error


def read_header(token: str) -> Header:
    """Read what chooses the key; raises TokenRefused (too-large, malformed, algorithm)."""
    if len(token) > MAX_TOKEN:
        raise refuse("too-large", "the token is too large", f"at most {MAX_TOKEN} characters")
    try:
        header = PyJWS().get_unverified_header(token)
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise _malformed() from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if "crit" in header or "b64" in header:  # we know no extension that must be understood
        raise _malformed()
    if algorithm not in ALGORITHMS:
        raise refuse("algorithm", "the token is not signed in a way that counts", _ALGORITHMS)
    return Header(algorithm, kid)


def verify(token: str, keys: Iterable[VerifyingKey], rules: Rules, now: float) -> dict[str, Any]:
    """Give the claims of a token that counts at the time ``now`` (s); raises TokenRefused.

    Which check failed is in the error's ``reason``. The signature comes first: of a token that nobody
    signed, nothing is told but that.
    """
    header = read_header(token)
    same = [key for key in keys if header.algorithm in key.algorithms]
    if not same:
        raise refuse("algorithm", f"there is no key for tokens signed by {header.algorithm}", _ALGORITHMS)
    fitting = [key for key in same if key.fits(header.algorithm, header.kid)]
    if not fitting:
        raise refuse("unknown-key", "the token is signed with a key that is not known", "get a new token")
    claims = _claims(_payload(token, fitting, header.algorithm))
    check_times(claims, rules, now)
    _check_names(claims, rules)
    return claims


def check_times(claims: Mapping[str, Any], rules: Rules, now: float) -> None:
    """Refuse claims whose time is over or has not come; ``now`` is in seconds."""
    expires, begins, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None and rules.require_expiry:
        raise refuse("no-expiry", "the token has no time to end (exp)", "sign it with an exp")
    if expires is not None and now >= expires + rules.leeway:
        raise refuse("expired", "the token's time is over", "get a new token")
    if begins is not None and now < begins - rules.leeway:
        raise refuse("not-yet", "the token does not count yet (nbf)", "are the clocks right?")
    if issued is not None and now < issued - rules.leeway:
        raise refuse("issued-ahead", "the token was issued in the future (iat)", "are the clocks right?")
    if rules.max_token_age and (issued is None or expires is None or expires - issued > rules.max_token_age):
        raise refuse(
            "too-long",
            "the token's life, from iat to exp, is longer than is allowed or not told",
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
    raise refuse("signature", "the token's signature is not right", "get a new token")


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
    named = audience if isinstance(audience, list) else [] if audience is None else [audience]
    # A token that is meant for somebody else must not count here, also where nobody said who we are.
    if (named or rules.audience) and rules.audience not in named:
        raise refuse("audience", "the token is for another audience (aud)", "see auth.audience")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise refuse("issuer", "the token is of another issuer (iss)", "see auth.issuer")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("malformed", f"the token's {name} is not a number")
    if not abs(value) <= _MAX_TIME:  # so that NaN, which is not over anything either, is refused
        raise refuse("malformed", f"the token's {name} is not a time")
    return float(value)


def _malformed() -> TokenRefused:
    return refuse("malformed", "what was given is not a token", "give a JWT: three parts with dots between")


_ALGORITHMS = f"sign it by one of {', '.join(ALGORITHMS)}, as [auth] has keys for"
