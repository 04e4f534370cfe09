"""Checks of single strings. Each returns the string in its normal form, or raises ValueError.

Messages do not repeat the string, which may contain a password; the caller adds where it is.
"""

from __future__ import annotations

import ipaddress
import json
import re
import warnings
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from distributary.config.secrets import mask_text
from distributary.model import value_checks

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MIN_SECRET = 32
"""Bytes: a shorter secret can be guessed from one token, without access to the server."""

_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):([0-9]{1,5})")
_MASTER = re.compile(r"local(?:\[[0-9*, ]+\])?|yarn|spark://\S+|k8s://\S+")
_ORIGIN = re.compile(r"https?://[^/\s?#@]+")
_HEADER = re.compile(r"[!-~]*")
_HOST_NAME = re.compile(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f:.]+\]?")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_KEY = re.compile(r"\bdk_[\w-]{20,}")
_VARIABLE = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*", re.ASCII)


def servers(text: str) -> str:
    """Check ``host:port[,host:port…]``; spaces around the commas are dropped. "" means embedded."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    for part in parts:
        match = _SERVER.fullmatch(part)
        if match is None or not 0 < int(match[1]) < 65536:
            raise ValueError('expected addresses such as "host:9092" or "a:9092,b:9092"')
    return ",".join(parts)


def store_url(text: str) -> str:
    """Check the URL of a Redis or Valkey server. "" means embedded."""
    return _url(text, ("redis", "rediss", "unix"), "redis://host:6379/0, rediss://… or unix:///path")


def shard(text: str) -> str:
    """Check the URL of one of several servers."""
    return store_url(value_checks.not_blank(text))


def public_url(text: str) -> str:
    """Check the URL of a publisher."""
    return _url(text, ("ws", "wss", "http", "https"), "wss://stream.example.com")


def web_url(text: str) -> str:
    """Check the public URL of a server. "" means its listening address."""
    return _without_secret(_url(text, ("http", "https"), "https://kafka.example.com/rest"))


def advertised_url(text: str) -> str:
    """Check the public URL of the publisher. "" means its listening address."""
    return _without_secret(public_url(text))


def registry_url(text: str) -> str:
    """Check the URL of a schema registry. "" means the gateway of the stack."""
    return _url(text, ("http", "https"), "https://registry.example.com")


def header(text: str) -> str:
    """Check the value of an HTTP header."""
    if not _HEADER.fullmatch(text):
        raise ValueError("expected visible ASCII characters and no line break")
    return text


def pem_file(text: str) -> str:
    """Check the name of a file with a key, and that it is not the key itself."""
    if "-----BEGIN" in text:
        raise ValueError("expected the name of a file, not the key itself")
    return value_checks.not_blank(text)


def master(text: str) -> str:
    """Check a Spark master. "" means local."""
    if text and not _MASTER.fullmatch(text):
        raise ValueError(
            'expected a Spark master such as "local[4]", "spark://host:7077", "k8s://…" or "yarn"'
        )
    return text


def variable(text: str) -> str:
    """Check the name of an environment variable, or a pattern of names."""
    if not _VARIABLE.fullmatch(text):
        raise ValueError('expected the name of a variable, or a pattern such as "AWS_*"')
    return text


def origin(text: str) -> str:
    """Check one browser origin: scheme and host without a path, or "*"."""
    if text != "*" and not _ORIGIN.fullmatch(text):
        raise ValueError('expected an origin such as "https://app.example.com" (no path), or "*"')
    return text


def host_name(text: str) -> str:
    """Check the name or address of a host, without a port."""
    if not _HOST_NAME.fullmatch(text):
        raise ValueError('expected the name of a host such as "stream.example.com" (no port, no path)')
    return text.lower()


def network(text: str) -> str:
    """Check an address, or a network of addresses."""
    try:
        return str(ipaddress.ip_network(text.strip("[]"), strict=False))
    except ValueError:
        raise ValueError('expected an address or a network such as "10.0.0.7" or "10.0.0.0/8"') from None


def regular_expression(text: str) -> str:
    """Check a regular expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that Python may change
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    return text


def hmac_secret(text: str) -> str:
    """Check a secret that signs tokens. "" means none."""
    if text.lstrip().startswith("-----BEGIN"):
        raise ValueError("expected a secret, not a PEM key: list its file in auth.public_keys")
    if text and len(text.encode()) < MIN_SECRET:
        raise ValueError(f"expected at least {MIN_SECRET} bytes, for example from `openssl rand -hex 32`")
    return text


def jwks_url(text: str) -> str:
    """Check the URL of a key set. "" means none; plain http is allowed for this machine only."""
    if not text:
        return text
    message = "expected a URL such as https://login.example.com/.well-known/jwks.json"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - the property raises when the port is no number
    except ValueError:
        raise ValueError(message) from None
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return text
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"{message} (without TLS, anyone on the way could replace the keys)")
    return text


def api_key(value: Any) -> str:
    """Check the structure of one entry of ``auth.keys``; return it as JSON.

    What it allows is checked where grants are made, by the same rules as a token's claims.
    """
    if not isinstance(value, dict):
        raise ValueError('expected a table such as { hash = "sha256:…", views = ["odds"] }')
    if not isinstance(value.get("hash"), str) or not _HASH.fullmatch(value["hash"]):
        raise ValueError('expected hash = "sha256:" and 64 digits; create one with `distributary token key`')
    try:
        text = json.dumps(value, default=_date)
        if _KEY.search(text):
            raise ValueError("expected the hash of a key, not the key itself: it would be printed")
        return text
    except TypeError:
        raise ValueError("expected strings, numbers, booleans, dates, lists and tables in it") from None


def _date(value: Any) -> str:
    """Format a date or time of TOML."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(value)


def _without_secret(text: str) -> str:
    if urlsplit(text).username is not None or mask_text(text) != text:
        raise ValueError("expected a URL without user, password or token: it is sent to clients")
    return text


def _url(text: str, schemes: tuple[str, ...], example: str) -> str:
    if not text:
        return text
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - the property raises when the port is no number
    except ValueError:
        raise ValueError(f"expected a URL such as {example}") from None
    has_place = parts.path if parts.scheme == "unix" else parts.hostname
    if parts.scheme not in schemes or not has_place:
        raise ValueError(f"expected a URL such as {example}")
    return text
