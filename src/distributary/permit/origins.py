"""Which browser pages may connect. Pure; a request without an Origin is not a browser's and passes."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_PORTS = {"http": 80, "https": 443}


def origin_allowed(origin: str | None, host: str, origins: Iterable[str]) -> bool:
    """Say whether a page of ``origin`` may use the server that it called ``host`` (a Host header).

    Pages of the same host may, whatever their port; the names of the own machine count as one host. Besides,
    ``origins`` lists some: exactly (``https://app.example.com``), all below a domain
    (``https://*.example.com``, but not example.com itself), or everybody (``*``).
    """
    if origin is None:
        return True
    listed = list(origins)
    if "*" in listed:
        return True
    page = _split(origin)
    if page is None or page.hostname is None:  # "null" is what a page in a sandbox sends
        return False
    if any(_listed(page, pattern) for pattern in listed):
        return True
    own = _split(f"//{host}")
    if own is None or own.hostname is None:
        return False
    return page.hostname == own.hostname or {page.hostname, own.hostname} <= _LOOPBACK


def _listed(page: SplitResult, pattern: str) -> bool:
    wanted = _split(pattern)
    if wanted is None or wanted.hostname is None or page.hostname is None:
        return False
    if (wanted.scheme, _port(wanted)) != (page.scheme, _port(page)):
        return False
    if wanted.hostname.startswith("*."):
        # The dot stays in: evil-example.com does not end with .example.com.
        return page.hostname.endswith(wanted.hostname[1:]) and page.hostname != wanted.hostname[1:]
    return page.hostname == wanted.hostname


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - the property raises when the port is no number
    except ValueError:
        return None
    # An origin is a scheme, a host and a port; what has more in it was not made by a browser.
    return None if parts.path or parts.query or parts.fragment or "@" in parts.netloc else parts


def _port(parts: SplitResult) -> int | None:
    return parts.port or _PORTS.get(parts.scheme)
