"""What a request to make a consumer instance says, and the address that it is told. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from distributary.gateway.error_codes import RestCode, api_error
from distributary.gateway.rest_proxy.consumer_instance import Wish
from distributary.gateway.rest_proxy.media_types import FORMATS

RESETS = {
    "earliest": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "largest": "latest",
    "none": "error",
}
SETTINGS = (
    "id",
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "consumer.request.timeout.ms",
    "fetch.min.bytes",
)
"""The settings of an instance; version 1 calls its name ``id``, version 2 ``name``."""
MAX_MIN_BYTES = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~%-]+)*/?")


def wish(body: Mapping[str, Any]) -> Wish:
    """Read the `SETTINGS` of a new instance."""
    name = body.get("name") or body.get("id") or ""
    if not isinstance(name, str) or (name and not _NAME.fullmatch(name)):
        raise api_error(
            RestCode.INVALID_CONSUMER_CONFIG,
            f"{str(name)[:80]!r} is no name",
            "use letters, digits, . _ and -",
        )
    format = _text(body, "format", "binary")
    if format not in FORMATS:
        raise api_error(
            RestCode.INVALID_CONSUMER_CONFIG,
            f"the format {format[:40]!r} is not known",
            f"it is {', '.join(FORMATS)}",
        )
    reset = _text(body, "auto.offset.reset", "latest")
    if reset not in RESETS:
        raise api_error(
            RestCode.INVALID_CONSUMER_CONFIG,
            f"auto.offset.reset = {reset[:40]!r} is not known",
            f"it is {', '.join(RESETS)}",
        )
    commit = str(body.get("auto.commit.enable", "true")).lower()
    if commit not in ("true", "false"):
        raise api_error(RestCode.INVALID_CONSUMER_CONFIG, "auto.commit.enable is neither true nor false")
    wait = _number(body, "consumer.request.timeout.ms", 0, 60_000)
    least = _number(body, "fetch.min.bytes", -1, MAX_MIN_BYTES)
    return Wish(
        name,
        format,
        RESETS[reset],
        commit == "true",
        None if wait is None else wait / 1000,
        max(least or 0, 0),
    )


def _number(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """Read a setting that is a whole number, or a text with one; None where it is not given."""
    found = body.get(name)
    if found is None:
        return None
    text = str(found)
    good = isinstance(found, int | str) and re.fullmatch("-?[0-9]{1,18}", text, re.ASCII)
    if not good or not low <= int(text) <= high:
        raise api_error(RestCode.INVALID_CONSUMER_CONFIG, f"{name} is no number from {low} to {high}")
    return int(text)


def _text(body: Mapping[str, Any], name: str, usual: str) -> str:
    found = body.get(name)
    return usual if found is None else str(found).lower()


def base_uri(
    group: str, name: str, *, advertised: str, host: str, scheme: str, headers: Mapping[str, str]
) -> str:
    """Say where an instance is found: as the configuration says, else as a proxy says, else as was asked."""
    if advertised:
        base = advertised.rstrip("/")
    else:
        proto = _forwarded(headers, "X-Forwarded-Proto", re.compile("https?")) or scheme
        place = _forwarded(headers, "X-Forwarded-Host", _HOST) or (
            host if _HOST.fullmatch(host) else "localhost"
        )
        port = _forwarded(headers, "X-Forwarded-Port", re.compile("[0-9]{1,5}"))
        if port and "X-Forwarded-Host" in headers and not re.search(r":[0-9]+$", place):
            place += "" if port == {"http": "80", "https": "443"}[proto] else f":{port}"
        base = f"{proto}://{place}" + _forwarded(headers, "X-Forwarded-Prefix", _PREFIX).rstrip("/")
    return f"{base}/consumers/{quote(group, safe='')}/instances/{quote(name, safe='')}"


def _forwarded(headers: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> str:
    """Read the first value of a proxy's header; what cannot be one is left out."""
    said = headers.get(name, "").partition(",")[0].strip()
    return said if pattern.fullmatch(said) else ""
