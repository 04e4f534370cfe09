"""Which browser pages may connect. A request without an Origin is not a browser's and passes."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


def allowed(origin: str | None, host: str, origins: Sequence[str]) -> bool:
    """Say whether a page of ``origin`` may use the publisher that it called ``host``.

    Pages of the same host may, whatever their port (the page and the WebSocket have different ones), and
    those whose origin is listed; ``*`` lists all. The names of the own machine count as one host.
    """
    if origin is None or "*" in origins or origin in origins:
        return True
    page, own = _hostname(origin), _hostname(f"//{host}")
    if page is None or own is None:
        return False
    return page == own or (page in _LOOPBACK and own in _LOOPBACK)


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
