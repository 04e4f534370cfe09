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
    """The settings of a server that are asked for here."""

    @property
    def host(self) -> str:
        """Where it listens."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Further names that it may be called by."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Further origins whose pages may use it."""


class OriginPolicy:
    """What a request's headers must say for a server to serve it.

    ``section`` is the name of its settings, for hints. A server on an address of the network may be called by
    any name: what it serves needs a token, which no other site's page has.
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
        """Raise HostRefused or OriginRefused unless a request may be served; ``headers`` ignores case."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if not self._called(host):
            raise HostRefused(
                f"this server is not called {host[:100]!r}",
                hint=f"call it by localhost, or name the host in {self._section}.hosts of the configuration",
            )
        if not origin_allowed(origin, host, self._origins):
            raise self._refused(f"pages of {str(origin)[:200]}")
        if origin is None and "*" not in self._origins and _embedded(headers):
            raise self._refused("pages of another site")

    def _called(self, host: str) -> bool:
        if self._hosts is None or not host:  # no browser leaves it out
            return True
        parts = _split(f"//{host}")
        name = parts.hostname.rstrip(".") if parts is not None and parts.hostname else ""
        return name in self._hosts or name.endswith(".localhost")

    def _refused(self, who: str) -> OriginRefused:
        return OriginRefused(
            f"{who} may not use this server",
            hint=f"name their origin in {self._section}.origins of the configuration",
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
    """Say whether another site's page has this in it: images and scripts carry no origin.

    A link to us that somebody follows is none of that: what it leads to is shown to nobody else.
    """
    if headers.get("Sec-Fetch-Site") != "cross-site":
        return False
    return (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) != ("navigate", "document")


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
