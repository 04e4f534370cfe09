"""The section ``[auth]``: who may do what. Without any of it the stack is open, on loopback only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from distributary.config import validators
from distributary.config.setting_field import Section, setting

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MIN_SECRET = 32
"""Bytes: a shorter secret can be guessed from one token, away from the server."""

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_KEY = re.compile(r"\bdk_[\w-]{20,}")


def secret(text: str) -> str:
    """Check a secret that tokens are signed with. "" means none."""
    if text.lstrip().startswith("-----BEGIN"):
        raise ValueError("expected a secret of your own, not a PEM key: name its file in auth.public_keys")
    if text and len(text.encode()) < MIN_SECRET:
        raise ValueError(f"expected at least {MIN_SECRET} bytes, such as `openssl rand -hex 32` makes")
    return text


def jwks_url(text: str) -> str:
    """Check the address of a key set. "" means none; plain http is for this machine only."""
    if not text:
        return text
    said = "expected an address such as https://login.example.com/.well-known/jwks.json"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - the property raises when the port is no number
    except ValueError:
        raise ValueError(said) from None
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return text
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"{said} (who can change what it answers can sign tokens)")
    return text


def api_key(value: Any) -> str:
    """Check one entry of ``auth.keys`` for its shape; gives it as JSON text.

    What it allows is checked where grants are made, by the same rules as a token's claims.
    """
    if not isinstance(value, dict):
        raise ValueError('expected a table such as { hash = "sha256:…", views = ["odds"] }')
    if not isinstance(value.get("hash"), str) or not _HASH.fullmatch(value["hash"]):
        raise ValueError('expected hash = "sha256:" and 64 digits; `distributary token key` makes one')
    try:
        text = json.dumps(value, default=_date)
        if _KEY.search(text):
            raise ValueError("expected the hash of a key, and not the key itself: it would be printed")
        return text
    except TypeError:
        raise ValueError("expected texts, numbers, booleans, dates, lists and tables in it") from None


def _date(value: Any) -> str:
    """Write a date or time of TOML as a text."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(value)


@dataclass(frozen=True, slots=True, repr=False)
class Auth(Section):
    """Who may do what: how tokens (JWT) are checked, and the API keys of services.

    With neither a secret nor keys the stack is open to everybody who reaches it, and so it listens on
    loopback addresses only.
    """

    hmac_secret: str = setting(
        "",
        "Secret that tokens are signed with by HS256 (of 48 or 64 bytes: by HS384, HS512, too), at least 32 "
        "bytes. Best given by environment.",
        hidden=True,
        check=secret,
    )
    previous_hmac_secrets: tuple[str, ...] = setting(
        (),
        "Secrets before `hmac_secret`, with which tokens may still be signed while it is replaced.",
        hidden=True,
        check=secret,
    )
    public_keys: tuple[str, ...] = setting(
        (),
        "PEM files of the public keys of tokens (RSA, EC or Ed25519), relative to the file's folder. "
        "All of them count, so that keys can be replaced one by one.",
        example='["keys/login.pem"]',
        secret=True,
        check=validators.pem_file,
    )
    jwks_url: str = setting(
        "",
        "Address of the key set (JWKS) of tokens signed with RSA, EC or Ed25519 keys.",
        example='"https://login.example.com/.well-known/jwks.json"',
        secret=True,
        check=jwks_url,
    )
    jwks_ttl: float = setting(
        600.0, "How long a fetched key set counts before it is fetched again.", unit="s", low=1, example="60"
    )
    jwks_min_interval: float = setting(
        30.0,
        "Least time between two fetches, however many tokens name a key that is not known.",
        unit="s",
        low=1,
        example='"10 s"',
    )
    jwks_max_age: float = setting(
        86_400.0,
        "How long keys count that cannot be fetched again: after that, tokens are refused.",
        unit="s",
        low=1,
        example='"1 hour"',
    )
    jwks_timeout: float = setting(
        5.0, "How long a fetch of the key set may take.", unit="s", low=0.1, high=60, example='"2 s"'
    )
    audience: str = setting(
        "",
        "What a token's aud must name. Empty: only tokens without an aud count.",
        example='"distributary"',
    )
    issuer: str = setting(
        "", "What a token's iss must be. Empty: any.", example='"https://login.example.com/"'
    )
    leeway: float = setting(
        30.0, "Grace for clocks that differ, in exp, nbf and iat.", unit="s", low=0, high=600, example='"5 s"'
    )
    require_expiry: bool = setting(
        True, "Whether a token without exp is refused. Such a token counts for ever.", example="false"
    )
    max_token_age: float = setting(
        0.0,
        "Longest life of a token, from iat to exp: one that says a longer one, or neither, is refused, and "
        "revocations are forgotten when they are older. 0: any, and revocations are kept for ever.",
        unit="s",
        low=0,
        example='"30 days"',
    )
    claim: str = setting(
        "",
        "The claim that holds views, rows, limits and so on as an object. Empty: they stand beside sub.",
        example='"https://example.com/distributary"',
    )
    default_views: str = setting(
        "none",
        "Which views a token or key allows that does not name any.",
        choices=("none", "all"),
        example='"all"',
    )
    revocation_delay: float = setting(
        1.0,
        "How long it may take until a revocation counts everywhere.",
        unit="s",
        low=0,
        high=300,
        example='"10 s"',
    )
    audit_log: str = setting(
        "",
        "File of the audit log (JSON lines: definitions, revocations, administrative calls, refusals). "
        'Empty: audit.log in the data folder; "-": each part\'s standard error.',
        example='"/var/log/distributary/audit.log"',
    )
    functions: tuple[str, ...] = setting(
        (),
        "Python functions (module:function, or patterns with *) that views may name which do not come from "
        "this file: they run in the reducers, with all that those can read.",
        example='["folds.streaks:*"]',
    )
    keys: Mapping[str, str] = setting(
        {},
        "API keys of services by name: hash, expires, issued, user (where two keys stand for one), and what "
        "each allows, named as in a token's claims. They are read again when the file changes.",
        example='{ reports = { hash = "sha256:'
        + "6ca13d52ca70c883e0f0bb101e425a89e8624de51db2d2392593af6a84118090"
        + '", views = ["odds"] } }',
        entry=api_key,
    )

    @property
    def on(self) -> bool:
        """Whether anybody must show a token or a key."""
        return bool(
            self.hmac_secret or self.previous_hmac_secrets or self.public_keys or self.jwks_url or self.keys
        )
