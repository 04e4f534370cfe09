"""Which browser pages may use a server, and the CORS headers that let them.

A page of any site can make the browser of someone on this machine call a server on its loopback address. Such
a call is recognized by what the browser sends: the page's origin (``Origin``), its relation to the server
(``Sec-Fetch-Site``) and the name by which it calls the server (``Host``). The name matters because the owner
of a domain can point it to 127.0.0.1 after the page was loaded (DNS rebinding): then the page and the server
have the same origin, and a GET carries none at all.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from distributary.auth.addresses import is_loopback
from distributary.errors import HostRefused, OriginRefused

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_PORTS = {"http": 80, "https": 443}


class Server(Protocol):
    """The settings of a server that are needed here."""

    @property
    def host(self) -> str:
        """Where it listens."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Further host names by which it may be called."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Further origins whose pages may use it."""


class OriginPolicy:
    """Which requests a server accepts by their headers.

    ``section`` is the name of its settings, for hints. A server on an address of the network may be called by
    any host name: its routes require a token, which no page of another site has.
    """

    def __init__(self, section: str, server: Server) -> None:
        self._section = section
        self._origins = server.origins
        self._hosts: frozenset[str] | None = None
        if is_loopback(server.host):
            advertised = urlsplit(getattr(server, "advertised_url", "")).hostname
            own = (server.host.strip("[]"), socket.gethostname().lower(), advertised)
            self._hosts = _LOOPBACK | {name for name in (*own, *server.hosts) if name}

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise HostRefused or OriginRefused unless a request is accepted; ``headers`` ignores case."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if not self._is_own_host(host):
            raise HostRefused(
                f"{host[:100]!r} is not a host name of this server",
                hint=f"use localhost, or add the host to {self._section}.hosts of the configuration",
            )
        if not origin_allowed(origin, host, self._origins):
            raise self._refused(f"pages of {str(origin)[:200]}")
        if origin is None and "*" not in self._origins and _embedded(headers):
            raise self._refused("pages of another site")

    def _is_own_host(self, host: str) -> bool:
        if self._hosts is None or not host:  # every browser sends it
            return True
        parts = _split(f"//{host}")
        name = parts.hostname.rstrip(".") if parts is not None and parts.hostname else ""
        return name in self._hosts or name.endswith(".localhost")

    def _refused(self, who: str) -> OriginRefused:
        return OriginRefused(
            f"{who} may not use this server",
            hint=f"add their origin to {self._section}.origins of the configuration",
        )


class Cors:
    """Applies an `OriginPolicy` to the requests of a server, and answers the preflight requests of browsers.

    ``methods`` and ``request_headers`` are what pages may use, ``response_headers`` what they may read
    besides the headers that every page may.
    """

    def __init__(
        self, policy: OriginPolicy, *, methods: str, request_headers: str, response_headers: str = ""
    ) -> None:
        self.policy = policy
        self._preflight = {
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": request_headers,
            "Access-Control-Max-Age": "600",
        }
        self._exposed = response_headers

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse pages that may not use the server; raises OriginRefused and HostRefused."""
        self.policy.check(request.headers)
        origin = request.headers.get("Origin")
        if origin is not None:
            request[_ALLOWED] = origin
        if request.method == "OPTIONS" and any(name in request.headers for name in _PREFLIGHT):
            return web.Response(status=204, headers=self._preflight)
        return await handler(request)

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the page read the response, an error too; for ``on_response_prepare``."""
        origin = request.get(_ALLOWED)
        if origin is None:
            return
        response.headers["Access-Control-Allow-Origin"] = origin
        if self._exposed:
            response.headers["Access-Control-Expose-Headers"] = self._exposed
        if "Origin" not in response.headers.get("Vary", ""):
            response.headers.add("Vary", "Origin")


_PREFLIGHT = ("Origin", "Access-Control-Request-Method")
CORS: web.AppKey[Cors] = web.AppKey("cors", Cors)
_ALLOWED: web.RequestKey[str] = web.RequestKey("allowed origin", str)
"""The origin of the page that may read the response."""


def _embedded(headers: Mapping[str, str]) -> bool:
    """True if a page of another site embeds this: requests for images and scripts have no origin.

    A link that a user follows is not embedded: its target is not visible to the page that has the link.
    """
    if headers.get("Sec-Fetch-Site") != "cross-site":
        return False
    return (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) != ("navigate", "document")


def origin_allowed(origin: str | None, host: str, origins: Iterable[str]) -> bool:
    """True if a page of ``origin`` may use the server that it called by ``host`` (a Host header).

    Pages of the same host may, on any port; the names of the local machine count as one host. So may those of
    ``origins``: exact ones (``https://app.example.com``), all below a domain (``https://*.example.com``, but
    not example.com itself), or all (``*``).
    """
    if origin is None:
        return True
    allowed = list(origins)
    if "*" in allowed:
        return True
    page = _split(origin)
    if page is None or page.hostname is None:  # a page in a sandbox sends "null"
        return False
    if any(_matches(page, pattern) for pattern in allowed):
        return True
    own = _split(f"//{host}")
    if own is None or own.hostname is None:
        return False
    return page.hostname == own.hostname or {page.hostname, own.hostname} <= _LOOPBACK


def _matches(page: SplitResult, pattern: str) -> bool:
    allowed = _split(pattern)
    if allowed is None or allowed.hostname is None or page.hostname is None:
        return False
    if (allowed.scheme, _port(allowed)) != (page.scheme, _port(page)):
        return False
    if allowed.hostname.startswith("*."):
        # The dot is kept: evil-example.com does not end with .example.com.
        return page.hostname.endswith(allowed.hostname[1:]) and page.hostname != allowed.hostname[1:]
    return page.hostname == allowed.hostname


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - the property raises if the port is not a number
    except ValueError:
        return None
    # An origin is a scheme, a host and a port; no browser sends more.
    return None if parts.path or parts.query or parts.fragment or "@" in parts.netloc else parts


def _port(parts: SplitResult) -> int | None:
    return parts.port or _PORTS.get(parts.scheme)


SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""They forbid a browser to guess a response's type, to run scripts in it, and to show it in a frame. A
response that is a page has a policy of its own."""


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add `SECURITY_HEADERS` to a response that does not have them; for ``on_response_prepare``."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
