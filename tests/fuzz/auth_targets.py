"""Targets: tokens, claims, API keys, key sets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from multidict import CIMultiDict

from distributary.auth.api_keys import ApiKeys
from distributary.auth.authenticator import Authenticator
from distributary.auth.claims import grant_of_token
from distributary.auth.jwt_checks import Rules, verify
from distributary.auth.verification_keys import of_jwks, of_pem, of_secret
from distributary.config import Auth, Config
from distributary.errors import DistributaryError
from distributary.store.memory_store import MemoryStore
from tests.fuzz.engine import Run, Target, without_resources
from tests.fuzz.mutations import any_json

SECRET = "a secret of the tests, long enough for HS256"
NOW = 1_800_000_000.0
CLAIMS: tuple[dict[str, Any], ...] = (
    {
        "sub": "ann",
        "exp": NOW + 60,
        "views": ["odds", "x-*"],
        "rows": {"odds": "player = 'ann'", "x-*": True},
    },
    {"sub": "ann", "exp": NOW + 60, "channel": "odds", "iat": NOW, "nbf": NOW, "jti": "j"},
    {
        "sub": "ann",
        "exp": NOW + 60,
        "views": ["*"],
        "columns": {"*": "price,name"},
        "limits": {"channels": 5},
        "operator": True,
    },
    {
        "sub": "ann",
        "exp": NOW + 60,
        "produce": ["odds"],
        "consume": ["*"],
        "groups": ["{user}-*"],
        "admin": False,
    },
)
RULES = Rules.of(Auth(hmac_secret=SECRET))
KEYS = (of_secret(SECRET),)


def _segment(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def signed(header: bytes, body: bytes) -> bytes:
    """Return a token with a valid signature, whatever its contents."""
    text = _segment(header) + b"." + _segment(body)
    return text + b"." + _segment(hmac.new(SECRET.encode(), text, hashlib.sha256).digest())


def _token(data: bytes) -> bool:
    try:
        grant_of_token(verify(data.decode("utf-8", "surrogateescape"), KEYS, RULES, NOW))
    except DistributaryError:
        return False
    return True


def _signed(data: bytes) -> bool:
    """Sign any header and claims, separated by a zero byte, so that they are parsed."""
    header, zero, body = data.partition(b"\0")
    token = signed(header, body) if zero else signed(b'{"alg":"HS256"}', data)
    return _token(token)


def _tokens(random: Random) -> bytes:
    claims = dict(random.choice(CLAIMS))
    for name in claims:
        if random.random() < 0.4 and name != "exp":
            claims[name] = any_json(random)
    return json.dumps(claims).encode()


def _jwks(data: bytes) -> bool:
    with contextlib.suppress(ValueError):
        of_pem(data)
    try:
        of_jwks(data)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def _credentials() -> Iterator[Run]:
    key = {"hash": f"sha256:{hashlib.sha256(b'dk_key').hexdigest()}", "views": ["odds"]}
    with tempfile.TemporaryDirectory() as folder:
        auth = Auth(hmac_secret=SECRET, keys={"reports": json.dumps(key)})
        config = Config(auth=auth, data_dir=Path(folder))
        authenticator = Authenticator(config, MemoryStore().reader.revoked, clock=lambda: NOW)
        keys = ApiKeys.of(config)
        loop = asyncio.new_event_loop()

        def run(data: bytes) -> bool:
            lines = [line.partition(":") for line in data.decode("utf-8", "surrogateescape").split("\n")]
            headers = CIMultiDict((name.strip(), value.strip()) for name, _, value in lines if name.strip())
            with contextlib.suppress(DistributaryError):
                keys.find(headers.get("X-API-Key", ""))
            try:
                loop.run_until_complete(authenticator.by_headers(headers))
            except DistributaryError:
                return False
            return True

        yield run
        loop.close()


_GOOD = signed(b'{"alg":"HS256","typ":"JWT"}', json.dumps(CLAIMS[0]).encode())
_JWK = {"kty": "RSA", "n": "AQAB" * 90, "e": "AQAB", "kid": "k", "use": "sig", "alg": "RS256"}
_EC = {"kty": "EC", "crv": "P-256", "x": "A" * 43, "y": "A" * 43, "key_ops": ["verify"]}

TARGETS = (
    Target("token", without_resources(_token), [_GOOD], ("auth.jwt_checks",)),
    Target(
        "claims",
        without_resources(_signed),
        [json.dumps(one).encode() for one in CLAIMS]
        + [b'{"alg":"HS256","kid":"x"}\0' + json.dumps(CLAIMS[0]).encode()],
        ("auth.claims", "auth.grant", "auth.jwt_checks"),
        _tokens,
    ),
    Target(
        "key-set",
        without_resources(_jwks),
        [json.dumps({"keys": [_JWK, _EC, 7]}).encode()],
        ("auth.verification_keys",),
        share=0.3,
    ),
    Target(
        "credentials",
        _credentials,
        [b"X-API-Key: dk_key", b"Authorization: ApiKey dk_key", b"Authorization: Bearer " + _GOOD],
        ("auth.authenticator", "auth.api_keys", "auth.token_issuer"),
        share=0.5,
    ),
)
